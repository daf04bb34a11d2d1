// Holds no requirements: `build` pins several versions of the same modules, which a go.mod cannot.
module laststream.test/crds

go 1.26.0
