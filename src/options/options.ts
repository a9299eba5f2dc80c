import Type, { type Static } from 'typebox'
import * as field from './values.js'

const KIB = 1024
const MIB = 1024 * KIB
const GIB = 1024 * MIB
const SECOND = 1_000
const HOUR = 3_600 * SECOND

const strict = { additionalProperties: false }

/**
 * Every option of the process: the schema of the options file, of the environment and of the flags. An option's
 * environment variable is its path in upper case, joined by `_`, behind `SLUICE_` (`limits.headers` is
 * `SLUICE_LIMITS_HEADERS`).
 */
export const optionsSchema = Type.Object(
  {
    listen: field.address({ description: 'Where traffic is accepted.', default: '127.0.0.1:8080' }),
    listeners: field.listeners({
      description:
        'Further places where traffic is accepted: maps of listen, tls, public_port, proxy_protocol and path_form, or URLs such as ' +
        'https://0.0.0.0:8443?public_port=443. Changes are applied while running.',
      default: []
    }),
    path_form: field.choice(['strict', 'lenient'], {
      description:
        'Normal form of paths where neither listener nor edge says another. strict: repeated slashes are merged; encoded ' +
        'slashes, backslashes, encoded control characters and dot segments with parameters are refused (400). lenient: RFC 3986 alone.',
      default: 'strict'
    }),
    tcp_host: Type.Optional(
      field.host({ description: 'Address on which the ports of TCP edges listen; default: that of `listen`.' })
    ),
    tcp_proxy_protocol: field.switched({
      description: 'Do trusted proxies in front of TCP edges say in a PROXY header whom they speak for?',
      default: 'off'
    }),
    upstream: Type.Optional(
      field.upstream({
        description: 'Where traffic goes that no edge claims: http:// or https://, a host and a port. Without it: 404.'
      })
    ),
    upstream_ca: Type.Optional(
      field.file({
        description:
          'PEM file of the authorities that an https upstream is checked against, instead of the well-known ones.'
      })
    ),
    site_file: Type.Optional(
      field.file({
        description:
          'Sites, backends, certificates, policies and listeners by readable names. Changes are applied while running.'
      })
    ),
    policy: Type.Optional(
      field.file({
        description: 'Traffic policy of the traffic that goes to `upstream`. Changes are applied while running.'
      })
    ),
    api: Type.Object(
      {
        listen: field.address({
          description: 'Where the management API, /healthz, /readyz and /metrics listen.',
          default: '127.0.0.1:4040'
        }),
        public_url: Type.Optional(
          field.origin({
            description:
              'How clients reach the API, when not by the listen address; its host is accepted in Host and Origin.'
          })
        ),
        allowed_hosts: field.hosts({
          description: 'Further host names that the API accepts in Host and Origin (protection against DNS rebinding).',
          default: []
        }),
        rate_limit: field.rate({
          description: 'Most requests of one owner of keys in a window that rolls; beyond: 429. off: no limit.',
          default: 'off'
        }),
        cors_origins: field.origins({
          description: 'Origins of foreign pages that may use the API with a key.',
          default: []
        })
      },
      { ...strict, description: 'The management listener.' }
    ),
    store: Type.Optional(
      field.store({
        description:
          'Where the records of the API are kept: a SQLite file, ":memory:" or postgres://…; default: sluice.db in `data`.'
      })
    ),
    cache: field.switched({
      description:
        'Keep a sealed copy of the records in `data`, from which a start serves while the store is out of reach?',
      default: 'on'
    }),
    zone: field.host({
      description: 'Domain of this service: reserved domains below it need no CNAME record.',
      default: 'sluice.localhost'
    }),
    regions: field.names({ description: 'Regions that records may name.', default: ['global'] }),
    agents: Type.Optional(
      field.address({
        description:
          'Where agents connect to offer tunnels (TLS); may be the address of a listener with TLS. Without it there are no agents.'
      })
    ),
    agents_certificate: Type.Optional(
      field.file({
        description:
          'PEM file of the certificate that agents are shown, leaf first; default: one of an authority of its own.'
      })
    ),
    agents_key: Type.Optional(field.file({ description: 'PEM file of the key of `agents_certificate`.' })),
    agents_tcp_ports: Type.Optional(
      field.ports({
        description: 'Ports that agents may open for TCP endpoints, such as 20000-20999; default: what is free.'
      })
    ),
    acme: Type.Object(
      {
        agree_terms: field.switched({
          description:
            'Do you agree to the terms of service of the authority? Without that no certificate is requested.',
          default: 'off'
        }),
        directory: field.text({
          description: 'URL of the directory of the authority "letsencrypt" (RFC 8555).',
          default: 'https://acme-v02.api.letsencrypt.org/directory'
        }),
        email: Type.Optional(field.text({ description: 'Where the authority may write to.' })),
        ca: Type.Optional(
          field.file({
            description: 'PEM file of the authorities that its API is checked against, instead of the well-known ones.'
          })
        ),
        eab_kid: Type.Optional(
          field.text({ description: 'Key identifier, when the authority wants an external account (RFC 8555 7.3.4).' })
        ),
        eab_key: Type.Optional(field.file({ description: 'File with its HMAC key, base64url.' }))
      },
      { ...strict, description: 'Where managed certificates come from.' }
    ),
    dns: Type.Object(
      {
        listen: Type.Optional(
          field.address({
            description:
              'Where the DNS is served (UDP and TCP) for acme.<zone> and for the domains of agent ingresses; default: nowhere.'
          })
        ),
        addresses: field.hosts({
          description: 'Public addresses of this service: answers for the addresses of agents.',
          default: []
        }),
        resolver: field.choice(['own', 'system'], {
          description:
            'Who looks up the names that connections lead to. own: DNS servers are asked, after /etc/hosts, with the search ' +
            'domains of /etc/resolv.conf. system: the C library with all it is set up for (mDNS, NSS); names without an answer ' +
            'then hold up others, files and compression.',
          default: 'own'
        }),
        servers: field.nameServers({
          description:
            'DNS servers that `own` asks, such as 9.9.9.9 or 127.0.0.1:5353; default: those of /etc/resolv.conf.',
          default: []
        })
      },
      { ...strict, description: 'Looking names up, and the name server of challenges for certificates.' }
    ),
    require_reserved: field.switched({
      description: 'Must the hosts of HTTPS edges be reserved domains?',
      default: 'off'
    }),
    data: field.directory({
      description:
        'Folder for what must outlive the process (records, API keys, sealing key). ":memory:" keeps nothing on disk.',
      default: './data'
    }),
    trusted_proxies: field.networks({
      description:
        'Networks of proxies in front of this one. Forwarding headers are believed only when they come from there.',
      default: []
    }),
    limits: Type.Object(
      {
        header_bytes: field.size({
          description: 'Largest header block of a request; beyond: 431.',
          default: '64KiB',
          minimum: KIB,
          maximum: MIB
        }),
        headers: field.integer({
          description: 'Most header fields in a request; beyond: 431.',
          default: 200,
          minimum: 8,
          maximum: 10_000
        }),
        target_bytes: field.size({
          description: 'Longest request target; beyond: 414.',
          default: '64KiB',
          minimum: 256,
          maximum: MIB
        }),
        buffered_body: field.size({
          description: 'Largest body that a policy or module may hold whole; beyond: 413, or 502 for a response.',
          default: '1MiB',
          minimum: KIB,
          maximum: GIB
        }),
        buffered_bodies: field.size({
          description: 'Memory that all such bodies may take together; beyond: 503.',
          default: '256MiB',
          minimum: MIB,
          maximum: 64 * GIB
        }),
        buffered_bodies_share: field.fraction({
          description:
            'Which share of that one client (an IPv4 address, an IPv6 network of 64 bits) may hold, 0 to 1, and always room for two ' +
            'bodies; beyond: 429. 1: all.',
          default: 0.1
        }),
        buffered_body_rate: field.size({
          description:
            'Least bytes per second of a request body that a policy or module holds whole, on average and after five seconds; slower: 408. 0: no limit.',
          default: '1KiB',
          minimum: 0,
          maximum: GIB
        }),
        connections: field.integer({
          description: 'Most client connections of one listener at a time; further ones are closed.',
          default: 10_000,
          minimum: 1,
          maximum: 1_000_000
        }),
        handshakes: field.integer({
          description:
            'Most connections of one listener that are at their TLS handshake or PROXY header at a time; further clients are closed, agents wait.',
          default: 1_000,
          minimum: 1,
          maximum: 1_000_000
        }),
        connections_per_address: field.integer({
          description:
            'Most of the connections of one listener from one IPv4 address or one /64 of IPv6; further ones are closed. Trusted proxies are exempt, the address in a PROXY header counts. 0: no limit.',
          default: 2_000,
          minimum: 0,
          maximum: 1_000_000
        }),
        handshakes_per_address: field.integer({
          description:
            'Most of the handshakes of one listener from one address, counted the same way; further clients are closed, agents wait. 0: no limit.',
          default: 200,
          minimum: 0,
          maximum: 1_000_000
        })
      },
      { ...strict, description: 'What one client may ask for.' }
    ),
    timeouts: Type.Object(
      {
        headers: field.duration({
          description: 'From the first byte of a request to the end of its headers; beyond: 408.',
          default: '10s',
          minimum: SECOND,
          maximum: HOUR
        }),
        keep_alive: field.duration({
          description: 'How long an idle client connection stays open.',
          default: '75s',
          minimum: 0,
          maximum: 24 * HOUR
        }),
        request_body: field.duration({
          description: 'Longest silence inside a request body. 0s: no limit.',
          default: '30s',
          minimum: 0,
          maximum: 24 * HOUR
        }),
        buffered_body: field.duration({
          description:
            'For the whole of a request body that a policy or module holds whole; beyond: 408. 0s: no limit.',
          default: '60s',
          minimum: 0,
          maximum: HOUR
        }),
        connect: field.duration({
          description: 'For a connection to the upstream; beyond: 504.',
          default: '5s',
          minimum: 10,
          maximum: HOUR
        }),
        response: field.duration({
          description:
            "From the end of the request to the headers of the upstream's answer; beyond: 504. 0s: no limit.",
          default: '60s',
          minimum: 0,
          maximum: 24 * HOUR
        }),
        idle: field.duration({
          description: "Longest silence inside the upstream's answer, an event stream or a WebSocket. 0s: no limit.",
          default: '10m',
          minimum: 0,
          maximum: 24 * HOUR
        }),
        drain: field.duration({
          description: 'How long a stopping process waits for the exchanges under way.',
          default: '30s',
          minimum: 0,
          maximum: HOUR
        })
      },
      { ...strict, description: 'Durations: 250ms, 10s, 1m30s, 1h.' }
    ),
    access_log: field.switched({ description: 'One line on standard output for each exchange.', default: 'on' }),
    access_log_sample: field.fraction({
      description: 'Which share of the exchanges is logged, 0 to 1.',
      default: 1
    }),
    log: Type.Object(
      {
        level: field.choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
          description: 'Least severe message that is logged.',
          default: 'info'
        }),
        buffer: field.size({
          description:
            'Memory for lines that wait for a slow reader or a full disk; further lines are dropped and counted.',
          default: '4MiB',
          minimum: MIB,
          maximum: GIB
        })
      },
      { ...strict, description: 'The log on standard output.' }
    ),
    rate_limit_headers: field.choice(['none', 'draft'], {
      description: '"draft" adds RateLimit and RateLimit-Policy (IETF draft 10) to answers of rate-limited routes.',
      default: 'none'
    }),
    limiter: Type.Object(
      {
        budget: field.size({
          description: 'Memory for rate-limit buckets; reserved, and used only as buckets appear.',
          default: '1GiB',
          minimum: MIB,
          maximum: 4 * GIB
        })
      },
      { ...strict, description: 'The table of the rate limiter.' }
    ),
    geoip: Type.Object(
      {
        database: Type.Optional(
          field.file({
            description:
              'Country database (.mmdb) for conn.client_ip.geo; default: the one that is installed with the program.'
          })
        )
      },
      { ...strict, description: 'Where addresses are looked up.' }
    ),
    outbound: Type.Object(
      {
        allow_private: field.switched({
          description:
            'May requests that policies and modules make reach private, loopback and other addresses that are not public?',
          default: 'off'
        }),
        ca: Type.Optional(
          field.file({
            description:
              'PEM file of the authorities that their servers are checked against, instead of the well-known ones.'
          })
        )
      },
      { ...strict, description: 'Requests that policies and modules make themselves.' }
    ),
    login: Type.Object(
      {
        providers: Type.Optional(
          field.file({
            description:
              'YAML file of the identity providers: for github, google, … the client_id and client_secret of the application ' +
              'that routes and policies without one of their own use, and other addresses (GitLab, GitHub Enterprise).'
          })
        )
      },
      { ...strict, description: 'Logins at identity providers.' }
    ),
    events: Type.Object(
      {
        folders: Type.Optional(
          field.directories({
            description:
              'Folders below which event destinations may write files; default: events in `data`. An empty list allows none.'
          })
        )
      },
      { ...strict, description: 'Events.' }
    ),
    jwt: Type.Object(
      {
        key_folders: Type.Optional(
          field.directories({
            description:
              'Folders that jwt-validation may read key files from (`files`); default: that of the options file. An empty list ' +
              'allows none.'
          })
        )
      },
      { ...strict, description: 'Tokens.' }
    ),
    history: field.integer({
      description: 'Revisions of the configuration whose history is kept.',
      default: 10_000,
      minimum: 1,
      maximum: 10_000_000
    }),
    region: field.text({ description: 'Name of this place, as policies see it.', default: '' }),
    engine: field.choice(['codec', 'http-proxy'], {
      description: 'What carries traffic: "codec" on raw sockets, "http-proxy" on the HTTP of Node.',
      default: 'codec'
    }),
    metrics: field.switched({ description: 'GET /metrics on the API listener.', default: 'on' })
  },
  {
    ...strict,
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Options of sluice start'
  }
)

/** The options as the program uses them: durations in milliseconds, sizes in bytes, addresses in parts, paths absolute. */
export type Options = Static<typeof optionsSchema>
