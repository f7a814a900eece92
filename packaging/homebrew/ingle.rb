# A formula for Homebrew; the release fills in URL and SHA256. Not yet run.
class Ingle < Formula
  include Language::Python::Virtualenv

  desc "Local language models: a daemon, and a chat in the terminal"
  url "@URL@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "python@3.13"
  depends_on "uv" # installs engines

  def install
    # Everything comes as wheels; the daemon compiles llama.cpp before the first answer.
    virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python=#{libexec}/bin/python", "install", buildpath
    bin.install_symlink libexec/"bin/ingle"
  end

  service do
    run [opt_libexec/"bin/python", "-P", "-m", "ingle.daemon.main", "serve", "--tcp-optional"]
    keep_alive crashed: true
    working_dir "/"
    log_path var/"log/ingle.log"
    error_log_path var/"log/ingle.log"
  end

  test do
    ENV["INGLE_HOME"] = testpath/"home"
    ENV["INGLE_PORT"] = "-1"
    assert_match version.to_s, shell_output("#{bin}/ingle version")
    assert_match "\"ok\"", shell_output("#{bin}/ingle doctor --json", nil)
  end
end
