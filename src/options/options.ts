import Type from 'typebox'
import { recorder } from '../capabilities/recorder/options.js'
import { otlp, traces } from '../capabilities/traces/options.js'
import { type JsonSchema, publish } from '../schema/publish.js'
import type { Schema } from '../schema/schema.js'
import { choice, duration, integer, object, optional, type Parsed, size, text } from '../schema/values.js'
import { accessLog } from './access-log.js'
import { identity, limits, login, timeouts } from './limits.js'
import * as option from './values.js'
import { worker, workers } from './worker.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/**
 * Every option of the process: the schema of the options file, of the environment and of the flags. An option's
 * environment variable is its path in upper case, joined by `_`, behind `SLUICE_` (`limits.headers` is
 * `SLUICE_LIMITS_HEADERS`).
 */
export const optionsSchema = Type.Object(
  {
    listen: option.addressOrOff({
      description: 'Where traffic is accepted. off: at the listeners alone.',
      default: '127.0.0.1:8080'
    }),
    listeners: option.listeners({
      description:
        'Further places where traffic is accepted: maps of listen, tls, public_port, proxy_protocol and path_form, URLs such as https://0.0.0.0:8443?public_port=443, ' +
        'or ports for http (8080, :8080, localhost:3000). A port without a host is that of every IPv4 address. Changes are applied while running. The default of listen is not opened where one of them has its port, or the site file of the start names listeners.',
      default: []
    }),
    path_form: choice(['strict', 'lenient', 'exact'], {
      description:
        'Normal form of paths where neither listener nor edge says another. strict: repeated slashes are merged; encoded ' +
        'slashes, backslashes, encoded control characters and dot segments with parameters are refused (400). lenient: RFC 3986 alone. exact: lenient for routes and policies, while upstreams get path and query byte for byte.',
      default: 'strict'
    }),
    edges_on_http: choice(['serve', 'redirect', 'refuse'], {
      description:
        'What HTTPS edges (names on port 443 or that of a listener with TLS) that do not say answer where clients come without ' +
        'TLS. serve: the same as with it. redirect: 308 to https, where there is a listener with TLS and a certificate for the ' +
        'name. refuse: 403.',
      default: 'serve'
    }),
    hsts: object(
      {
        max_age: duration({
          description:
            'How long browsers are to reach hosts by https alone: Strict-Transport-Security in answers over TLS (RFC 6797), for ' +
            'edges that do not say. 0s: none is added.',
          default: '0s',
          min: 0,
          max: 10 * 8_760 * HOUR
        }),
        include_subdomains: option.switched({
          description: 'Does that hold for all names below as well?',
          default: 'off'
        }),
        preload: option.switched({
          description:
            'May browsers come with that knowledge? Needs include_subdomains and a max_age of a year (8760h) or more.',
          default: 'off'
        })
      },
      { description: 'What browsers remember of hosts that are served over TLS.' }
    ),
    tcp_host: optional(
      option.host({ description: 'Address on which the ports of TCP edges listen; default: that of `listen`.' })
    ),
    tcp_proxy_protocol: option.switched({
      description: 'Do trusted proxies in front of TCP edges say in a PROXY header whom they speak for?',
      default: 'off'
    }),
    upstream: optional(
      option.upstream({
        description:
          'Where traffic goes that no edge claims: http:// or https://, a host, a port, and a path that is put before that of each request; or http://unix:/run/app.sock:/path. Without it: 404.'
      })
    ),
    files: optional(
      option.file({
        description:
          'Folder whose files are sent to hosts that no edge claims, in place of an upstream. `index.html` stands for a folder.'
      })
    ),
    file_folders: option.directories({
      description:
        'Folders that backends of kind file and applied site files may serve, with all below them. The site file of the start may serve any. An empty list allows none.',
      default: []
    }),
    upstream_ca: optional(
      option.file({
        description:
          'PEM file of the authorities that an https upstream is checked against, instead of the well-known ones.'
      })
    ),
    upstream_link_local: option.switched({
      description:
        'May upstreams and backends have link-local addresses (169.254.0.0/16, fe80::/10) and those at which clouds answer machines ' +
        'about themselves? Their metadata services give credentials away.',
      default: 'off'
    }),
    site_file: optional(
      option.file({
        description:
          'Sites, backends, certificates, policies and listeners by readable names. Changes are applied while running.'
      })
    ),
    policy: optional(
      option.file({
        description: 'Traffic policy of the traffic that goes to `upstream`. Changes are applied while running.'
      })
    ),
    policy_tests: optional(
      option.file({
        description:
          'Tests of `policy`, as `sluice test` reads them. A policy whose tests fail is not applied. Changes are applied while running.'
      })
    ),
    api: object(
      {
        listen: option.address({
          description: 'Where the management API, /healthz, /readyz and /metrics listen.',
          default: '127.0.0.1:4040'
        }),
        public_url: optional(
          option.origin({
            description:
              'How clients reach the API, when not by the listen address; its host is accepted in Host and Origin.'
          })
        ),
        allowed_hosts: option.hosts({
          description: 'Further host names that the API accepts in Host and Origin (protection against DNS rebinding).',
          default: []
        }),
        rate_limit: option.rate({
          description: 'Most requests of one owner of keys in a window that rolls; beyond: 429. off: no limit.',
          default: 'off'
        }),
        cors_origins: option.origins({
          description: 'Origins of foreign pages that may use the API with a key.',
          default: []
        }),
        dashboard: option.switched({
          description: 'Serve the dashboard at / of this listener? People sign in there with an API key.',
          default: 'on'
        }),
        session_idle: duration({
          description: 'A session of the dashboard without a call ends after this time.',
          default: '30m',
          min: MINUTE,
          max: DAY
        }),
        session_longest: duration({
          description: 'A session of the dashboard ends after this time in any case.',
          default: '12h',
          min: MINUTE,
          max: 30 * DAY
        })
      },
      { description: 'The management listener.' }
    ),
    store: optional(
      option.store({
        description:
          'Where the records of the API are kept: a SQLite file, ":memory:" or postgres://…; default: sluice.db in `data`.'
      })
    ),
    cache: option.switched({
      description:
        'Keep a sealed copy of the records in `data`, from which a start serves while the store is out of reach?',
      default: 'on'
    }),
    zone: option.host({
      description: 'Domain of this service: reserved domains below it need no CNAME record.',
      default: 'sluice.localhost'
    }),
    regions: option.names({ description: 'Regions that records may name.', default: ['global'] }),
    agents: optional(
      option.address({
        description:
          'Where agents connect to offer tunnels (TLS); may be the address of a listener with TLS. Without it there are no agents.'
      })
    ),
    agents_certificate: optional(
      option.file({
        description:
          'PEM file of the certificate that agents are shown, leaf first; watched; default: one of an authority of its own.'
      })
    ),
    agents_key: optional(option.file({ description: 'PEM file of the key of `agents_certificate`.' })),
    agents_tcp_ports: optional(
      option.ports({
        description: 'Ports that agents may open for TCP endpoints, such as 20000-20999; default: what is free.'
      })
    ),
    acme: object(
      {
        agree_terms: option.switched({
          description:
            'Do you agree to the terms of service of the authority? Without that no certificate is requested.',
          default: 'off'
        }),
        directory: text({
          description: 'URL of the directory of the authority "letsencrypt" (RFC 8555).',
          default: 'https://acme-v02.api.letsencrypt.org/directory'
        }),
        email: optional(text({ description: 'Where the authority may write to.' })),
        ca: optional(
          option.file({
            description: 'PEM file of the authorities that its API is checked against, instead of the well-known ones.'
          })
        ),
        eab_kid: optional(
          text({ description: 'Key identifier, when the authority wants an external account (RFC 8555 7.3.4).' })
        ),
        eab_key: optional(option.file({ description: 'File with its HMAC key, base64url.' })),
        orders: integer({ description: 'Orders in three hours; others wait.', default: 300, min: 1, max: 1_000_000 })
      },
      { description: 'Where managed certificates come from.' }
    ),
    dns: object(
      {
        listen: optional(
          option.address({
            description:
              'Where the DNS is served (UDP and TCP) for acme.<zone> and for the domains of agent ingresses; default: nowhere.'
          })
        ),
        addresses: option.hosts({
          description: 'Public addresses of this service: answers for the addresses of agents.',
          default: []
        }),
        resolver: choice(['own', 'system'], {
          description:
            'Who looks up the names that connections lead to. own: DNS servers are asked, after /etc/hosts, with the search ' +
            'domains of /etc/resolv.conf. system: the C library with all it is set up for (mDNS, NSS); names without an answer ' +
            'then hold up others, files and compression.',
          default: 'own'
        }),
        servers: option.nameServers({
          description:
            'DNS servers that `own` asks, such as 9.9.9.9 or 127.0.0.1:5353; default: those of /etc/resolv.conf.',
          default: []
        })
      },
      { description: 'Looking names up, and the name server of challenges for certificates.' }
    ),
    require_reserved: option.switched({
      description: 'Must the hosts of HTTPS edges be reserved domains?',
      default: 'off'
    }),
    data: option.directory({
      description:
        'Folder for what must outlive the process (records, API keys, sealing key). ":memory:" keeps nothing on disk.',
      default: './data'
    }),
    trusted_proxies: option.networks({
      description:
        'Networks of proxies in front of this one. Forwarding headers are believed only when they come from there.',
      default: []
    }),
    limits,
    timeouts,
    ...accessLog,
    log: object(
      {
        level: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
          description: 'Least severe message that is logged.',
          default: 'info'
        }),
        buffer: size({
          description:
            'Memory for lines that wait for a slow reader or a full disk; further lines are dropped and counted.',
          default: '4MiB',
          min: MIB,
          max: GIB
        })
      },
      { description: 'The log on standard output.' }
    ),
    recorder,
    otlp,
    traces,
    rate_limit_headers: choice(['none', 'draft'], {
      description: '"draft" adds RateLimit and RateLimit-Policy (IETF draft 10) to answers of rate-limited routes.',
      default: 'none'
    }),
    limiter: object(
      {
        budget: size({
          description: 'Memory for rate-limit buckets; reserved, and used only as buckets appear.',
          default: '1GiB',
          min: MIB,
          max: 4 * GIB
        }),
        scope: choice(['server', 'cluster'], {
          description:
            'Who counts together where a rate-limit action does not say. server: each process by itself. cluster: all processes on one ' +
            'PostgreSQL store.',
          default: 'server'
        }),
        top_keys: option.switched({
          description:
            'Are the keys that limits refuse most kept for five minutes, as text in memory? off: where keys are personal data that ' +
            'must not be; then GET /limits/{id}/top is refused.',
          default: 'on'
        }),
        checkpoint: option.interval({
          description:
            'How often what limits have counted is written into `data`, so that it outlives the process; a process that is killed loses ' +
            'so much. off: counts begin with the process.',
          default: '5s',
          min: 250,
          max: HOUR
        })
      },
      { description: 'The table of the rate limiter.' }
    ),
    geoip: object(
      {
        database: optional(
          option.file({
            description:
              'Country database (.mmdb) for conn.client_ip.geo; default: the one that is installed with the program.'
          })
        )
      },
      { description: 'Where addresses are looked up.' }
    ),
    outbound: object(
      {
        allow_private: option.switched({
          description:
            'May requests that policies and modules make reach private, loopback and other addresses that are not public?',
          default: 'off'
        }),
        ca: optional(
          option.file({
            description:
              'PEM file of the authorities that their servers are checked against, instead of the well-known ones.'
          })
        )
      },
      { description: 'Requests that policies and modules make themselves.' }
    ),
    login,
    events: object(
      {
        folders: optional(
          option.directories({
            description:
              'Folders below which event destinations may write files; default: events in `data`. An empty list allows none.'
          })
        )
      },
      { description: 'Events.' }
    ),
    jwt: object(
      {
        key_folders: optional(
          option.directories({
            description:
              'Folders that jwt-validation may read key files from (`files`), and basic-auth its `file`; default: that of the options file. An empty list ' +
              'allows none.'
          })
        )
      },
      { description: 'Tokens.' }
    ),
    history: integer({
      description: 'Revisions of the configuration whose history is kept.',
      default: 10_000,
      min: 1,
      max: 10_000_000
    }),
    ...identity,
    engine: choice(['codec', 'http-proxy'], {
      description: 'What carries traffic: "codec" on raw sockets, "http-proxy" on the HTTP of Node.',
      default: 'codec'
    }),
    workers,
    worker,
    metrics: option.switched({ description: 'GET /metrics on the API listener.', default: 'on' })
  },
  {
    additionalProperties: false,
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Options of sluice start'
  }
)

/** The options as the program uses them: durations in milliseconds, sizes in bytes, addresses in parts, paths absolute. */
export type Options = Parsed<typeof optionsSchema>

/** JSON Schema of the options file. */
export function publishedOptions(): JsonSchema {
  return publish(optionsSchema as unknown as Schema, option.OPTIONS)
}
