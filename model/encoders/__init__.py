"""What stands before the factors: segment features as they are, or recurrent networks over segments and frames."""
