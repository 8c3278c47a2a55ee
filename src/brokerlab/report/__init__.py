"""The report: one HTML file that shows the tables of a study. It formats, sorts and picks; it computes no statistic."""
