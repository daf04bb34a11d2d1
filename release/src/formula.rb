class Laststream < Formula
  desc "Drain Istio and Envoy without losing requests"
  homepage "HOMEPAGE"
  version "VERSION"
  license "Apache-2.0"

  depends_on :linux

  on_intel do
    url "AMD64_URL"
    sha256 "AMD64_DIGEST"
  end
  on_arm do
    url "ARM64_URL"
    sha256 "ARM64_DIGEST"
  end

  def install
    bin.install "laststream"
    generate_completions_from_executable(bin/"laststream", "completions")
    man1.mkpath
    system bin/"laststream", "man", man1
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/laststream version")
  end
end
