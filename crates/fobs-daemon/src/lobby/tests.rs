use super::*;
use std::io::Write;
use std::net::IpAddr;

const NOW: Duration = Duration::from_millis(20);

/// A listener, and connections to it that the lobby has taken in; their clients' ends.
struct Play {
    listener: [TcpListener; 1],
    lobby: Lobby,
    start: Instant,
}

impl Play {
    fn new(max: usize) -> Play {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Play { listener: [listener], lobby: Lobby::of(max), start: Instant::now() }
    }

    /// A connection from an address enters, `after` seconds after the start.
    fn enter(&mut self, last: u8, port: u16, after: u64) -> (TcpStream, Option<Departed>) {
        let client = TcpStream::connect(self.listener[0].local_addr().unwrap()).unwrap();
        let (socket, _) = self.listener[0].accept().unwrap();
        let from = SocketAddr::new(IpAddr::from([10, 0, 0, last]), port);
        let closed = self.lobby.enter(socket, from, self.start + Duration::from_secs(after));
        (client, closed)
    }

    /// Enters and speaks.
    fn speak(&mut self, last: u8, port: u16, after: u64) -> (TcpStream, Option<Departed>) {
        let (mut client, closed) = self.enter(last, port, after);
        client.write_all(b"x").unwrap();
        let spoken = self.lobby.waiting.values().filter(|it| it.speech != Speech::None).count();
        while self.lobby.waiting.values().filter(|it| it.speech != Speech::None).count() == spoken {
            assert!(self.lobby.wait(&self.listener, NOW).unwrap().is_empty());
        }
        (client, closed)
    }

    /// Whose turn it is, by port, and takes it.
    fn turn(&mut self, talked_to: &HashMap<Network, usize>) -> Option<u16> {
        let (id, waiting) = self.lobby.turn(talked_to)?;
        let port = waiting.from.port();
        self.lobby.take(id).map(|_| port)
    }
}

fn port_of(departed: Option<Departed>) -> Option<u16> {
    departed.map(|(from, why)| {
        assert_eq!(why, Departure::MadeRoom);
        from.port()
    })
}

#[test]
fn those_that_spoke_have_their_turn_and_the_silent_none() {
    let mut play = Play::new(8);
    let _silent = play.enter(1, 1, 0);
    let _held = [play.speak(1, 2, 0), play.speak(1, 3, 0), play.speak(2, 4, 0)];
    assert!(play.lobby.has_spoken());
    let busy = HashMap::from([(Network::of([10, 0, 0, 1].into()), 3)]);
    assert_eq!(play.turn(&busy), Some(4), "of the network that is talked to the least");
    assert_eq!([play.turn(&busy), play.turn(&busy), play.turn(&busy)], [Some(2), Some(3), None]);
    assert!(!play.lobby.has_spoken() && play.lobby.waiting.len() == 1);
}

#[test]
fn the_silent_make_room_and_no_newcomer_is_turned_away_for_them() {
    let mut play = Play::new(4);
    let _spoke = play.speak(1, 1, 0);
    let _silent: Vec<_> = (2..5).map(|port| play.enter(1, port, 0)).collect();
    let mut held = Vec::new();
    for (port, makes_room) in [(5, 2), (6, 3), (7, 4)] {
        let (client, closed) = play.speak(1, port, 0);
        assert_eq!(port_of(closed), Some(makes_room));
        held.push(client);
    }
    assert_eq!(play.lobby.waiting.len(), 4);
    let (_client, closed) = play.enter(1, 99, 0);
    assert_eq!(port_of(closed), Some(99), "nobody who spoke makes room for one that has not");
}

#[test]
fn the_largest_network_makes_room_and_the_stale_before_it() {
    let mut play = Play::new(5);
    let _one = play.enter(2, 1, 0);
    let _many: Vec<_> = (2..6).map(|port| play.speak(1, port, 1)).collect();
    let (_client, closed) = play.enter(3, 6, 1);
    assert_eq!(port_of(closed), Some(5), "the last of the largest network");
    let (_client, closed) = play.enter(3, 7, 2);
    assert_eq!(port_of(closed), Some(1), "it could have spoken long since");
}

#[test]
fn who_waits_too_long_or_goes_leaves() {
    let mut play = Play::new(4);
    let (late, _) = play.enter(1, 1, 0);
    let _newer = play.enter(1, 2, 1);
    let (gone, _) = play.enter(1, 3, 2);
    drop(gone);
    let departed = loop {
        let departed = play.lobby.wait(&play.listener, NOW).unwrap();
        if !departed.is_empty() {
            break departed;
        }
    };
    assert_eq!(
        departed.iter().map(|(from, why)| (from.port(), *why)).collect::<Vec<_>>(),
        [(3, Departure::Gone)]
    );
    let at = play.start + HANDSHAKE_WAIT;
    let late_ones = play.lobby.expire(at);
    assert_eq!(
        late_ones.iter().map(|(from, why)| (from.port(), *why)).collect::<Vec<_>>(),
        [(1, Departure::Late)]
    );
    assert_eq!(late.peek(&mut [0]).unwrap(), 0, "it is closed");
}
