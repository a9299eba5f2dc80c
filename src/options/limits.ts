import { duration, fraction, integer, object, optional, size, text } from '../schema/values.js'
import { file, switched } from './values.js'

const KIB = 1024
const MIB = 1024 * KIB
const GIB = 1024 * MIB
const SECOND = 1_000
const HOUR = 3_600 * SECOND

/** Options of how this process presents itself. */
export const identity = {
  via: text({
    description:
      'Name of this proxy in the Via field of requests to upstreams (RFC 9110 7.6.3), by which requests that come back are refused (508). off: ' +
      'none is sent, and no loop is noticed.',
    default: 'sluice',
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$"
  }),
  error_bodies: switched({
    description:
      'Do errors that Sluice answers itself have a body: text, HTML or JSON, as Accept prefers, with title, code and request id? off: they are empty.',
    default: 'on'
  }),
  region: text({ description: 'Name of this place, as policies see it.', default: '' })
}

/** Options of how much a client may take. */
export const limits = object(
  {
    header_bytes: size({
      description: 'Largest header block of a request; beyond: 431.',
      default: '64KiB',
      min: KIB,
      max: MIB
    }),
    headers: integer({
      description: 'Most header fields in a request; beyond: 431.',
      default: 200,
      min: 8,
      max: 10_000
    }),
    target_bytes: size({
      description: 'Longest request target; beyond: 414.',
      default: '64KiB',
      min: 256,
      max: MIB
    }),
    buffered_body: size({
      description:
        'Largest body that a policy or module may hold whole; beyond: 413, or 502 for a response. Webhooks of github may have 25MiB.',
      default: '1MiB',
      min: KIB,
      max: GIB
    }),
    buffered_bodies: size({
      description: 'Memory that all such bodies may take together; beyond: 503.',
      default: '256MiB',
      min: MIB,
      max: 64 * GIB
    }),
    buffered_bodies_share: fraction({
      description:
        'Which share of that one client (an IPv4 address, an IPv6 network of 64 bits) may hold, 0 to 1, and always room for two ' +
        'bodies; beyond: 429. 1: all.',
      default: 0.1
    }),
    buffered_body_rate: size({
      description:
        'Least bytes per second of a request body that a policy or module holds whole, on average and after five seconds; slower: 408. 0: no limit.',
      default: '1KiB',
      min: 0,
      max: GIB
    }),
    abort_on_close: switched({
      description:
        'Does work for a request stop when its client ends its direction of a connection without TLS? off: a client may do so behind a whole request, ' +
        'as nc -N and load balancers do it, and is answered; one that has closed is noticed when its answer is written, or after `timeouts.half_closed`.',
      default: 'off'
    }),
    stream_window: size({
      description:
        'Largest receive window of a stream of HTTP/2, of a client or to an upstream: bytes that may arrive before they are read. It begins with 256KiB and ' +
        'grows where the sender would wait for credit because the round trip is long. 256KiB: it does not grow.',
      default: '4MiB',
      min: 256 * KIB,
      max: 16 * MIB
    }),
    stream_windows: size({
      description: 'Memory by which these windows may grow beyond 256KiB in all; then no further one grows.',
      default: '64MiB',
      min: 0,
      max: 64 * GIB
    }),
    connections: integer({
      description:
        'Most client connections of one listener at a time; further ones are closed. WebSockets and other upgrades may take nine tenths of them.',
      default: 10_000,
      min: 1,
      max: 1_000_000
    }),
    handshakes: integer({
      description:
        'Most connections of one listener that are at their TLS handshake or PROXY header at a time; further clients are closed, agents wait.',
      default: 1_000,
      min: 1,
      max: 1_000_000
    }),
    connections_per_address: integer({
      description:
        'Most of the connections of one listener from one IPv4 address or one /64 of IPv6; further ones are closed. Trusted proxies are exempt, the address in a PROXY header counts. 0: no limit.',
      default: 2_000,
      min: 0,
      max: 1_000_000
    }),
    handshakes_per_address: integer({
      description:
        'Most of the handshakes of one listener from one address, counted the same way; further clients are closed, agents wait. 0: no limit.',
      default: 200,
      min: 0,
      max: 1_000_000
    })
  },
  { description: 'What one client may ask for.' }
)

/** Options of how long a client or an upstream may take. */
export const timeouts = object(
  {
    headers: duration({
      description: 'From the first byte of a request to the end of its headers; beyond: 408.',
      default: '10s',
      min: SECOND,
      max: HOUR
    }),
    keep_alive: duration({
      description: 'How long an idle client connection stays open.',
      default: '75s',
      min: 0,
      max: 24 * HOUR
    }),
    request_body: duration({
      description:
        'Longest silence inside a request body whose answer has not begun, but for gRPC; afterwards `idle` counts. 0s: no limit.',
      default: '30s',
      min: 0,
      max: 24 * HOUR
    }),
    buffered_body: duration({
      description: 'For the whole of a request body that a policy or module holds whole; beyond: 408. 0s: no limit.',
      default: '60s',
      min: 0,
      max: HOUR
    }),
    connect: duration({
      description: 'For a connection to the upstream; beyond: 504.',
      default: '5s',
      min: 10,
      max: HOUR
    }),
    response: duration({
      description: "From the end of the request to the headers of the upstream's answer; beyond: 504. 0s: no limit.",
      default: '60s',
      min: 0,
      max: 24 * HOUR
    }),
    idle: duration({
      description:
        'Longest silence of an exchange whose answer has begun, of gRPC, a WebSocket, another upgrade or a TCP connection, in both directions. 0s: no limit.',
      default: '10m',
      min: 0,
      max: 24 * HOUR
    }),
    half_closed: duration({
      description:
        'Longest silence on a WebSocket, another upgrade, a TCP connection or an answer of which one side has ended, where `idle` is longer. 0s: no limit of its own.',
      default: '30s',
      min: 0,
      max: 24 * HOUR
    }),
    tcp_keep_alive: duration({
      description:
        'Silence after which the system probes a connection of a client or to an upstream, so that a peer which has vanished is noticed (TCP keep-alive). 0s: never.',
      default: '60s',
      min: 0,
      max: 2 * HOUR
    }),
    drain: duration({
      description: 'How long a stopping process waits for the exchanges under way.',
      default: '30s',
      min: 0,
      max: HOUR
    })
  },
  { description: 'Durations: 250ms, 10s, 1m30s, 1h.' }
)

/** Options of logins at identity providers. */
export const login = object(
  {
    providers: optional(
      file({
        description:
          'YAML file of the identity providers: for github, google, … the client_id and client_secret of the application ' +
          'that routes and policies without one of their own use, and other addresses (GitLab, GitHub Enterprise).'
      })
    ),
    stored_sessions: size({
      description:
        'Bytes of sessions that the store keeps because they do not fit into cookies (tokens with hundreds of groups). Beyond, those ' +
        'that were longest unused go, and log in again; 0 refuses such logins.',
      default: '256MiB',
      min: 0,
      max: 16 * GIB
    })
  },
  { description: 'Logins at identity providers.' }
)
