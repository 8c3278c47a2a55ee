"""The study: values, validation and the plan. Imports nothing else of brokerlab but errors."""
