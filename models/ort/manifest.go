package ort

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"
)

const (
	// minVersion is the oldest that serves: onnxruntime_go asks for API 24.
	minVersion = "1.24"
	// pipPython is the Python whose wheel is asked for: each wheel's library is another build.
	pipPython = "311"
)

//go:embed releases.yaml
var pinned []byte

// releases are the pinned ones, by provider.
var releases = sync.OnceValue(func() (all map[string]release) {
	if err := yaml.UnmarshalWithOptions(pinned, &all, yaml.Strict()); err != nil {
		panic(err)
	}
	return all
})

type release struct {
	Name, Version string
	Builds        map[string]build // by GOOS-GOARCH
}

// build is a release for one platform.
type build struct {
	Library  string               // its name in the cache
	Tags     []string             // of the platform, in names of wheels
	Packages map[string][]archive // by client, that with the library first; absent: the client has none that serves
}

// archive is a package with the files that are taken from it.
type archive struct {
	Name, Version string // Version "": the release's. The first file is then the library
	Megabytes     int    // of the download
	Folder        string // of the files, inside
	Files         []file
}

type file struct {
	Name   string
	Size   int64 // bytes
	SHA256 string
}
