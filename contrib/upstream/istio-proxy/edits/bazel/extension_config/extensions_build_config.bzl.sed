/^    "envoy.filters.http.lua":/a\
    "envoy.filters.http.match_delegate":                "//source/extensions/filters/http/match_delegate:config",
