"""What every run has: configuration, directory, devices, progress, signals."""
