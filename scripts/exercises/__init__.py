"""The exercises of scripts/practice.py: templates/ is what a learner gets, checks.py what they do not see."""
