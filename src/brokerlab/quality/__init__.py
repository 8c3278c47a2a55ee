"""Questionnaires about brokers: the quality model, the sheets that raters fill in, and the weights that follow.

model (features, anchors) + sheets (rater, round, answers) ──► answers ──► pipeline (weights, scores, groups)

Values only; what is computed over many sheets is computed on Spark.
"""
