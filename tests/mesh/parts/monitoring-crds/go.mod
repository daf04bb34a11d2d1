// Holds no requirements: `build` pins modules of which only files are read.
module laststream.test/monitoring-crds

go 1.26.0
