# A formula for a tap, for Homebrew on Linux: fobs runs on no other system. Not built by our tests, which have no
# Homebrew; scripts/lint-recipes.sh parses it. A release fills in homepage, url and sha256 of its source archive.
class Fobs < Formula
  desc "Fast, encrypted, verified copies over long fat networks"
  homepage "https://fobs.invalid/"
  url "https://fobs.invalid/fobs-0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/fobs-cli")
    system bin/"fobs", "man", "--out", man1
    generate_completions_from_executable(bin/"fobs", "completions")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/fobs --version")
    (testpath/"ssh").write <<~SH
      #!/bin/sh
      case " $* " in *" -G "*) exit 1 ;; esac
      exec #{bin}/fobs server
    SH
    chmod 0755, testpath/"ssh"
    (testpath/"file").write "content"
    system bin/"fobs", "cp", "-q", "--ssh", testpath/"ssh", testpath/"file", "localhost:#{testpath}/copy"
    assert_equal "content", (testpath/"copy").read
  end
end
