// What the two ends of the UDT contestant have in common: arguments, errors, socket settings, time.
//
// The exchange on one UDT stream: the sender writes the number of bytes and a time in milliseconds (8 octets each, big
// endian), then the bytes. With time 0 the receiver answers one octet when all of them are in the file; with another
// both ends stop after that time, wherever they are. Both give up at a deadline.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <udt/udt.h>

// One failure ends the program with one sentence on stderr and exit status 1.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline Failure system_failure(const std::string& what) {
    return Failure(what + ": " + std::generic_category().message(errno));
}

inline Failure udt_failure(const std::string& what) {
    std::string why = UDT::getlasterror().getErrorMessage();
    while (!why.empty() && (why.back() == '.' || why.back() == '\n' || why.back() == ' ')) why.pop_back();
    return Failure(what + ": " + why);
}

// Bytes of a file that one call reads or writes: large enough that calls cost nothing beside the packets, small
// enough that the stream never waits for a disk.
constexpr std::size_t PIECE_BYTES = 256 * 1024;
// A day.
constexpr std::uint64_t TIME_MS_MAX = 86'400'000;
// Octets of a packet that are not the user's: IPv4 20, UDP 8, UDT 16.
constexpr int HEADER_BYTES = 44;
// Above what any experiment sends; it keeps a wrong header from asking for the disk.
constexpr std::uint64_t FILE_BYTES_MAX = std::uint64_t{1} << 40;
// UDT keeps buffers as counts of packets in an int; 1 GiB is 16 times the largest product of the laboratory's paths.
constexpr std::uint64_t BUFFER_BYTES_MAX = std::uint64_t{1} << 30;

// What the sender writes first.
struct Header {
    std::uint64_t bytes;   // octets that follow, at most
    std::uint64_t time_ms; // 0: all of them; else both ends stop after it
    static constexpr std::size_t OCTETS = 16;

    std::array<char, OCTETS> encode() const {
        std::array<char, OCTETS> octets{};
        for (std::size_t index = 0; index < 8; ++index) {
            octets[index] = static_cast<char>(bytes >> (56 - 8 * index));
            octets[8 + index] = static_cast<char>(time_ms >> (56 - 8 * index));
        }
        return octets;
    }

    static Header decode(const std::array<char, OCTETS>& octets) {
        Header header{0, 0};
        for (std::size_t index = 0; index < 8; ++index) {
            header.bytes = header.bytes << 8 | static_cast<unsigned char>(octets[index]);
            header.time_ms = header.time_ms << 8 | static_cast<unsigned char>(octets[8 + index]);
        }
        if (header.bytes > FILE_BYTES_MAX) throw Failure("the sender announced more than 1 TiB");
        if (header.time_ms > TIME_MS_MAX) throw Failure("the sender announced more than a day");
        return header;
    }
};

// `--name value` pairs, each name known to the program and given once.
class Arguments {
public:
    Arguments(int count, char** values, const std::set<std::string>& known, const std::string& usage) {
        for (int index = 1; index < count; index += 2) {
            std::string name = values[index];
            if (known.count(name) == 0) throw Failure("unknown argument " + name + "; " + usage);
            if (index + 1 >= count) throw Failure(name + " wants a value; " + usage);
            if (!given_.emplace(name, values[index + 1]).second) throw Failure(name + " is given twice");
        }
    }

    std::string text(const std::string& name) const {
        auto found = given_.find(name);
        if (found == given_.end() || found->second.empty()) throw Failure(name + " is missing");
        return found->second;
    }

    bool has(const std::string& name) const { return given_.count(name) != 0; }

    std::uint64_t number(const std::string& name, std::uint64_t low, std::uint64_t high) const {
        const std::string value = text(name);
        std::uint64_t number = 0;
        auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc() || end != value.data() + value.size() || number < low || number > high)
            throw Failure(name + " must be a whole number from " + std::to_string(low) + " to " +
                          std::to_string(high) + ", not " + value);
        return number;
    }

private:
    std::map<std::string, std::string> given_;
};

// What both ends set alike, because UDT's window is the smaller of what the two ends allow.
struct Settings {
    int mss;                  // octets of an IP packet
    std::uint64_t window;     // octets that may be in flight, and the size of UDT's own buffers
    std::uint64_t udp_buffer; // octets of the kernel's socket buffers (the kernel caps them at rmem_max, wmem_max)
    int timeout_s;            // for the whole transfer

    explicit Settings(const Arguments& arguments)
        : mss(static_cast<int>(arguments.number("--mss", 576, 9000))),
          window(arguments.number("--window", 65536, BUFFER_BYTES_MAX)),
          udp_buffer(arguments.number("--udp-buffer", 4096, BUFFER_BYTES_MAX)),
          timeout_s(static_cast<int>(arguments.number("--timeout", 1, 86400))) {}
};

inline sockaddr_in address_of(const Arguments& arguments) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(arguments.number("--port", 1, 65535)));
    const std::string text = arguments.text("--address");
    if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
        throw Failure("--address must be an IPv4 address, not " + text);
    return address;
}

// The library's threads live as long as this does.
class Library {
public:
    Library() {
        if (UDT::startup() == UDT::ERROR) throw udt_failure("UDT could not start");
    }
    ~Library() { UDT::cleanup(); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
};

class Deadline {
public:
    explicit Deadline(std::chrono::milliseconds time) : at_(Clock::now() + time) {}

    // Milliseconds left, rounded up; 0 when it is over.
    int left_ms() const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
        return static_cast<int>(std::max<decltype(left)>(left, 0));
    }

private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point at_;
};

// What a call on a stream came to.
enum class Outcome { Moved, TimeOver, PeerClosed };

// A UDT socket that is closed with its owner.
class Socket {
public:
    explicit Socket(UDTSOCKET handle) : handle_(handle) {
        if (handle_ == UDT::INVALID_SOCK) throw udt_failure("no UDT socket");
    }
    ~Socket() { UDT::close(handle_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    UDTSOCKET handle() const { return handle_; }

    template <typename Value>
    void set(UDT::SOCKOPT option, const Value& value, const char* name) {
        if (UDT::setsockopt(handle_, 0, option, &value, sizeof value) == UDT::ERROR)
            throw udt_failure(std::string("UDT refused ") + name);
    }

    // Before bind and connect. The flight size goes first: UDT cuts the receive buffer down to it.
    void configure(const Settings& settings) {
        set(UDT_MSS, settings.mss, "UDT_MSS");
        const int window = static_cast<int>(settings.window);
        // An int in packets; UDT's default of 25600 stays the least.
        set(UDT_FC, std::max(25600, window / (settings.mss - HEADER_BYTES) + 1), "UDT_FC");
        set(UDT_SNDBUF, window, "UDT_SNDBUF");
        set(UDT_RCVBUF, window, "UDT_RCVBUF");
        set(UDP_SNDBUF, static_cast<int>(settings.udp_buffer), "UDP_SNDBUF");
        set(UDP_RCVBUF, static_cast<int>(settings.udp_buffer), "UDP_RCVBUF");
    }

    // How long `close` may wait until what was sent is acknowledged. UDT's default of 180 s would hide a failure.
    void linger_for(int seconds) { set(UDT_LINGER, linger{seconds > 0, seconds}, "UDT_LINGER"); }

    // Sends until all is in UDT's buffer or the deadline has passed.
    Outcome send_all(const char* bytes, std::size_t count, const Deadline& deadline) {
        while (count > 0) {
            const int left_ms = deadline.left_ms();
            if (left_ms == 0) return Outcome::TimeOver;
            set(UDT_SNDTIMEO, left_ms, "UDT_SNDTIMEO");
            const int sent = UDT::send(handle_, bytes, static_cast<int>(std::min(count, PIECE_BYTES)), 0);
            if (sent == UDT::ERROR) {
                const Outcome outcome = why_not("sending failed");
                if (outcome == Outcome::PeerClosed) return outcome;
                continue;
            }
            bytes += sent;
            count -= static_cast<std::size_t>(sent);
        }
        return Outcome::Moved;
    }

    // Receives at least one octet, unless the deadline passes or the other end closes first; `got` says how many.
    Outcome receive(char* bytes, std::size_t room, std::size_t& got, const Deadline& deadline) {
        got = 0;
        for (;;) {
            const int left_ms = deadline.left_ms();
            if (left_ms == 0) return Outcome::TimeOver;
            set(UDT_RCVTIMEO, left_ms, "UDT_RCVTIMEO");
            const int count = UDT::recv(handle_, bytes, static_cast<int>(std::min(room, PIECE_BYTES)), 0);
            if (count != UDT::ERROR) {
                got = static_cast<std::size_t>(count);
                return Outcome::Moved;
            }
            const Outcome outcome = why_not("receiving failed");
            if (outcome == Outcome::PeerClosed) return outcome;
        }
    }

    void receive_all(char* bytes, std::size_t count, const Deadline& deadline) {
        while (count > 0) {
            std::size_t got = 0;
            demand(receive(bytes, count, got, deadline));
            bytes += got;
            count -= got;
        }
    }

    // For what cannot do without the bytes.
    static void demand(Outcome outcome) {
        if (outcome == Outcome::TimeOver) throw Failure("the transfer did not end before the time given by --timeout");
        if (outcome == Outcome::PeerClosed) throw Failure("the other end closed before the transfer was complete");
    }

private:
    // After UDT::ERROR: nothing yet (the deadline decides), an end, or a failure.
    static Outcome why_not(const char* what) {
        const int code = UDT::getlasterror_code();
        if (code == CUDTException::ETIMEOUT || code == CUDTException::EASYNCSND || code == CUDTException::EASYNCRCV)
            return Outcome::TimeOver;
        if (code == CUDTException::ECONNLOST || code == CUDTException::EINVSOCK || code == CUDTException::ENOCONN)
            return Outcome::PeerClosed;
        throw udt_failure(what);
    }

    UDTSOCKET handle_;
};

// A file descriptor that is closed with its owner.
class File {
public:
    File(const std::string& path, int flags) : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
        if (descriptor_ < 0) throw system_failure("cannot open " + path);
    }
    ~File() { ::close(descriptor_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    std::uint64_t size() const {
        const off_t end = ::lseek(descriptor_, 0, SEEK_END);
        if (end < 0 || ::lseek(descriptor_, 0, SEEK_SET) < 0) throw system_failure("cannot measure " + path_);
        return static_cast<std::uint64_t>(end);
    }

    std::size_t read(char* bytes, std::size_t room) const {
        for (;;) {
            const ssize_t got = ::read(descriptor_, bytes, room);
            if (got > 0) return static_cast<std::size_t>(got);
            if (got == 0) throw Failure(path_ + " became shorter while it was sent");
            if (errno != EINTR) throw system_failure("cannot read " + path_);
        }
    }

    void write_all(const char* bytes, std::size_t count) const {
        while (count > 0) {
            const ssize_t put = ::write(descriptor_, bytes, count);
            if (put < 0) {
                if (errno == EINTR) continue;
                throw system_failure("cannot write " + path_);
            }
            bytes += put;
            count -= static_cast<std::size_t>(put);
        }
    }

private:
    std::string path_;
    int descriptor_;
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One line of JSON, whole or not at all: the runner reads it through a pipe.
inline void print_line(const std::string& line) {
    if (std::printf("%s\n", line.c_str()) < 0 || std::fflush(stdout) != 0) throw system_failure("cannot write stdout");
}

inline std::string decimal(double value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.6f", value);
    return text.data();
}

// Version of the library's package when this was built: the library itself does not know.
#ifndef UDT_VERSION
#define UDT_VERSION ""
#endif

// Answers `--version`; otherwise runs a program's body and turns every failure into its sentence and exit status.
template <typename Body>
int run(const char* name, int count, char** values, Body body) {
    try {
        if (count == 2 && std::string_view(values[1]) == "--version")
            print_line(std::string(name) + ", libudt " + (*UDT_VERSION ? UDT_VERSION : "of unknown version"));
        else
            body();
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%s: %s\n", name, failure.what());
        return 1;
    }
}
