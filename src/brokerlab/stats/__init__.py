"""Pure mathematics over arrays, thin over SciPy. Imports nothing else of brokerlab."""
