"""A step that failed: replayed stage by stage, with a fallback for the stage at fault. A step that goes well pays for
it with a look at a clock."""
