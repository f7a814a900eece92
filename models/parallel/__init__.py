"""One model on several devices: which part of each tensor a rank has, and how ranks add up."""
