"""Jobs: training, labelling and evaluation that outlive their request."""
