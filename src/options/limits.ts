import { duration, fraction, integer, object, optional, size, text } from '../schema/values.js'
import { file, switched } from './values.js'

const KIB = 1024
const MIB = 1024 * KIB
const GIB = 1024 * MIB
const SECOND = 1_000
const HOUR = 3_600 * SECOND

/** Options that identify this process to clients and upstreams. */
export const identity = {
  via: text({
    description:
      'Name of this proxy in the Via header of requests to upstreams (RFC 9110 7.6.3). It detects forwarding loops (508). off: ' +
      'no Via header, and no loop detection.',
    default: 'sluice',
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$"
  }),
  error_bodies: switched({
    description:
      'Responses of Sluice to errors have a body: text, HTML or JSON by the Accept header, with title, code and request id. off: no body.',
    default: 'on'
  }),
  region: text({ description: 'Name of this region, for policies.', default: '' })
}

/** Options that limit the resources of a client. */
export const limits = object(
  {
    header_bytes: size({
      description: 'Maximum size of the request headers; beyond: 431.',
      default: '64KiB',
      min: KIB,
      max: MIB
    }),
    headers: integer({
      description: 'Maximum number of request headers; beyond: 431.',
      default: 200,
      min: 8,
      max: 10_000
    }),
    target_bytes: size({
      description: 'Maximum length of the request target (path and query); beyond: 414.',
      default: '64KiB',
      min: 256,
      max: MIB
    }),
    buffered_body: size({
      description:
        'Maximum body size that a policy or module may buffer; beyond: 413, or 502 for a response. GitHub webhooks may have 25MiB.',
      default: '1MiB',
      min: KIB,
      max: GIB
    }),
    buffered_bodies: size({
      description: 'Maximum memory for all buffered bodies; beyond: 503.',
      default: '256MiB',
      min: MIB,
      max: 64 * GIB
    }),
    buffered_bodies_share: fraction({
      description:
        'Share of `buffered_bodies` that one client (an IPv4 address or IPv6 /64) may use, 0 to 1, but at least two bodies; ' +
        'beyond: 429. 1: no limit for one client.',
      default: 0.1
    }),
    buffered_body_rate: size({
      description:
        'Minimum bytes per second of a buffered request body, on average after five seconds; slower: 408. 0: no limit.',
      default: '1KiB',
      min: 0,
      max: GIB
    }),
    abort_on_close: switched({
      description:
        'Abort a request when the client half-closes a plain TCP connection (as nginx does by default). off: the request is ' +
        'answered, because nc -N and some load balancers half-close after a request; a closed client is then noticed when the response is written, or after `timeouts.half_closed`.',
      default: 'off'
    }),
    stream_window: size({
      description:
        'Maximum HTTP/2 stream receive window, for clients and upstreams. It starts at 256KiB and grows on connections with a long round ' +
        'trip. 256KiB: fixed.',
      default: '4MiB',
      min: 256 * KIB,
      max: 16 * MIB
    }),
    stream_windows: size({
      description: 'Maximum total growth of these windows beyond 256KiB each.',
      default: '64MiB',
      min: 0,
      max: 64 * GIB
    }),
    connections: integer({
      description:
        'Maximum client connections of one listener; further ones are closed. WebSockets and other upgrades may use nine tenths of them.',
      default: 10_000,
      min: 1,
      max: 1_000_000
    }),
    handshakes: integer({
      description:
        'Maximum connections of one listener in their TLS handshake or PROXY header; further clients are closed, agents wait.',
      default: 1_000,
      min: 1,
      max: 1_000_000
    }),
    connections_per_address: integer({
      description:
        'Maximum connections of one listener from one IPv4 address or IPv6 /64; further ones are closed. Trusted proxies are exempt; with a PROXY header, its address counts. 0: no limit.',
      default: 2_000,
      min: 0,
      max: 1_000_000
    }),
    handshakes_per_address: integer({
      description:
        'Maximum handshakes of one listener from one address, counted the same way; further clients are closed, agents wait. 0: no limit.',
      default: 200,
      min: 0,
      max: 1_000_000
    })
  },
  { description: 'Limits of what clients may use.' }
)

/** Timeouts of clients and upstreams. */
export const timeouts = object(
  {
    headers: duration({
      description: 'Time to receive the request headers, from their first byte; beyond: 408.',
      default: '10s',
      min: SECOND,
      max: HOUR
    }),
    keep_alive: duration({
      description: 'Keep-alive timeout of idle client connections.',
      default: '75s',
      min: 0,
      max: 24 * HOUR
    }),
    request_body: duration({
      description:
        'Maximum time between two reads of a request body, until the response begins (then `idle`); not for gRPC. 0s: no limit.',
      default: '30s',
      min: 0,
      max: 24 * HOUR
    }),
    buffered_body: duration({
      description: 'Time to receive a request body that a policy or module buffers; beyond: 408. 0s: no limit.',
      default: '60s',
      min: 0,
      max: HOUR
    }),
    connect: duration({
      description: 'Time to connect to the upstream; beyond: 504.',
      default: '5s',
      min: 10,
      max: HOUR
    }),
    response: duration({
      description:
        'Time from the end of the request to the response headers of the upstream; beyond: 504. 0s: no limit.',
      default: '60s',
      min: 0,
      max: 24 * HOUR
    }),
    idle: duration({
      description:
        'Idle timeout of a response, gRPC call, WebSocket, other upgrade or TCP connection: time without data in either direction. 0s: no limit.',
      default: '10m',
      min: 0,
      max: 24 * HOUR
    }),
    half_closed: duration({
      description:
        'Idle timeout after one side has closed its direction of a WebSocket, other upgrade, TCP connection or response, if `idle` is longer. 0s: `idle` applies.',
      default: '30s',
      min: 0,
      max: 24 * HOUR
    }),
    tcp_keep_alive: duration({
      description:
        'TCP keep-alive: idle time after which the system probes a connection to detect a lost peer. 0s: no probes.',
      default: '60s',
      min: 0,
      max: 2 * HOUR
    }),
    drain: duration({
      description: 'How long a stopping process waits for open requests (graceful shutdown).',
      default: '30s',
      min: 0,
      max: HOUR
    })
  },
  { description: 'Durations: 250ms, 10s, 1m30s, 1h.' }
)

/** Options for login at identity providers. */
export const login = object(
  {
    providers: optional(
      file({
        description:
          'YAML file of identity providers: client_id and client_secret for github, google, …, used by routes and policies ' +
          'without their own, and custom addresses (GitLab, GitHub Enterprise).'
      })
    ),
    stored_sessions: size({
      description:
        'Maximum size of all sessions in the store; sessions are stored there if they do not fit into cookies (tokens with ' +
        'hundreds of groups). Beyond, the least recently used ones are dropped and log in again. 0: such logins are refused.',
      default: '256MiB',
      min: 0,
      max: 16 * GIB
    })
  },
  { description: 'Logins with identity providers.' }
)

/** Options of the web application firewall. */
export const waf = object(
  {
    rules: optional(
      file({
        description:
          'Folder of a release of the OWASP Core Rule Set 4, for the actions owasp-crs-request and owasp-crs-response: crs-setup.conf ' +
          '(or its example) and rules/*.conf. A changed folder is read again.'
      })
    ),
    skip_unknown: switched({
      description:
        'Leave out rules with a directive, operator or transformation that Sluice does not know. off: such a folder is refused.',
      default: 'off'
    })
  },
  { description: 'Web application firewall.' }
)
