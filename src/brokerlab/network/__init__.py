"""Networks that are what they claim: namespaces, links, and the proof of them. Imports study, stats and record."""
