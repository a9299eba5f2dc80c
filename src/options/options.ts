import Type from 'typebox'
import { optionGroups } from '../capabilities/options.js'
import { type JsonSchema, publish } from '../schema/publish.js'
import type { Schema } from '../schema/schema.js'
import { choice, duration, integer, object, optional, type Parsed, size } from '../schema/values.js'
import { accessLog } from './access-log.js'
import { withGroups } from './group.js'
import { identity, limits, login, timeouts, waf } from './limits.js'
import * as option from './values.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Schema of all options, for file, environment and flags. Environment variable: `limits.headers` is `SLUICE_LIMITS_HEADERS`. */
export const optionsSchema = Type.Object(
  withGroups(
    {
      listen: option.addressOrOff({
        description: 'Address that accepts traffic. off: only the addresses of listeners.',
        default: '127.0.0.1:8080'
      }),
      listeners: option.listeners({
        description:
          'Additional listeners: maps of listen, tls, public_port, proxy_protocol and path_form, URLs such as https://0.0.0.0:8443?public_port=443, ' +
          'or ports for http (8080, :8080, localhost:3000). A port without a host listens on every IPv4 address. Reloaded without a restart. The default of `listen` is not opened if one of them uses its port, or if the site file names listeners.',
        default: []
      }),
      path_form: choice(['strict', 'lenient', 'exact'], {
        description:
          'How request paths are normalized, unless a listener or edge says otherwise. strict: repeated slashes are merged; encoded ' +
          'slashes, backslashes, encoded control characters and dot segments with parameters are refused (400). lenient: normalized by RFC 3986 only. exact: routes and policies see the lenient form, the upstream gets path and query byte for byte.',
        default: 'strict'
      }),
      edges_on_http: choice(['serve', 'redirect', 'refuse'], {
        description:
          'Response to plain HTTP requests for the hosts of HTTPS sites and edges, unless an edge says otherwise. serve: the same as ' +
          'over HTTPS. redirect: 308 to https, if there is a TLS listener and a certificate for the name. refuse: 403.',
        default: 'serve'
      }),
      hsts: object(
        {
          max_age: duration({
            description:
              'max-age of Strict-Transport-Security in responses over TLS (RFC 6797): how long browsers use only HTTPS. Applies unless ' +
              'an edge says otherwise. 0s: no header is added.',
            default: '0s',
            min: 0,
            max: 10 * 8_760 * HOUR
          }),
          include_subdomains: option.switched({
            description: 'Include all subdomains (includeSubDomains).',
            default: 'off'
          }),
          preload: option.switched({
            description:
              'Allow browsers to preload the host (preload). Needs include_subdomains and a max_age of a year (8760h) or more.',
            default: 'off'
          })
        },
        { description: 'HSTS: makes browsers use only HTTPS.' }
      ),
      tcp_host: optional(
        option.host({ description: 'Address on which the ports of TCP edges listen; default: that of `listen`.' })
      ),
      tcp_proxy_protocol: option.switched({
        description: 'Expect a PROXY protocol header from trusted proxies in front of TCP edges.',
        default: 'off'
      }),
      upstream: optional(
        option.upstream({
          description:
            'Default upstream for hosts that no site, edge or agent serves: http:// or https://, a host, a port, and a path that is prepended to that of each request; or http://unix:/run/app.sock:/path. Without it: 404.'
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
          description: 'PEM file of CA certificates to verify an https upstream, instead of the public CAs.'
        })
      ),
      upstream_link_local: option.switched({
        description:
          'Allow link-local upstream addresses (169.254.0.0/16, fe80::/10) and those of cloud metadata services, which give ' +
          'credentials away.',
        default: 'off'
      }),
      site_file: optional(
        option.file({
          description: 'Site file: sites, backends, certificates, policies and listeners. Reloaded without a restart.'
        })
      ),
      policy: optional(
        option.file({
          description: 'Traffic policy file for the default `upstream`. Reloaded without a restart.'
        })
      ),
      policy_tests: optional(
        option.file({
          description:
            'Tests of `policy`, as `sluice test` reads them. A policy whose tests fail is not applied. Reloaded without a restart.'
        })
      ),
      api: object(
        {
          listen: option.address({
            description: 'Address of the management API, the dashboard, /healthz, /readyz and /metrics.',
            default: '127.0.0.1:4040'
          }),
          public_url: optional(
            option.origin({
              description:
                'Public URL of the API, if it differs from the listen address; its host is accepted in Host and Origin.'
            })
          ),
          allowed_hosts: option.hosts({
            description:
              'Further host names that the API accepts in Host and Origin (protection against DNS rebinding).',
            default: []
          }),
          rate_limit: option.rate({
            description: 'Maximum requests of one key owner in a sliding window; beyond: 429. off: no limit.',
            default: 'off'
          }),
          cors_origins: option.origins({
            description: 'Origins of web pages that may call the API with a key (CORS).',
            default: []
          }),
          dashboard: option.switched({
            description: 'Serve the dashboard at /. Users sign in with an API key.',
            default: 'on'
          }),
          session_idle: duration({
            description: 'Idle timeout of a dashboard session.',
            default: '30m',
            min: MINUTE,
            max: DAY
          }),
          session_longest: duration({
            description: 'Maximum duration of a dashboard session.',
            default: '12h',
            min: MINUTE,
            max: 30 * DAY
          })
        },
        { description: 'The management listener.' }
      ),
      store: optional(
        option.store({
          description: 'Database of the API: a SQLite file, ":memory:" or postgres://…; default: sluice.db in `data`.'
        })
      ),
      cache: option.switched({
        description:
          'Keep an encrypted copy of the configuration in `data`, used by a start while the store is unreachable.',
        default: 'on'
      }),
      zone: option.host({
        description: 'Domain of this service: reserved domains below it need no CNAME record.',
        default: 'sluice.localhost'
      }),
      regions: option.names({ description: 'Regions that records may name.', default: ['global'] }),
      dns: object(
        {
          listen: optional(
            option.address({
              description:
                'Address of the built-in DNS server (UDP and TCP) for acme.<zone> and the domains of agent ingresses; default: none.'
            })
          ),
          addresses: option.hosts({
            description: 'Public IP addresses of this service, returned by the built-in DNS server.',
            default: []
          }),
          resolver: choice(['own', 'system'], {
            description:
              'How host names are resolved. own: /etc/hosts, then DNS queries with the search domains of /etc/resolv.conf. system: the ' +
              'C library (mDNS, NSS); slow lookups then delay other lookups, file access and compression.',
            default: 'own'
          }),
          servers: option.nameServers({
            description:
              'DNS servers for `resolver: own`, such as 9.9.9.9 or 127.0.0.1:5353; default: those of /etc/resolv.conf.',
            default: []
          })
        },
        { description: 'DNS resolver, and the built-in DNS server for certificate challenges.' }
      ),
      require_reserved: option.switched({
        description: 'Require that hosts of HTTPS edges and public cloud endpoints are reserved domains.',
        default: 'off'
      }),
      data: option.directory({
        description: 'Data folder (database, API keys, sealing key). ":memory:" stores nothing on disk.',
        default: './data'
      }),
      trusted_proxies: option.networks({
        description:
          'Networks of proxies in front of Sluice. X-Forwarded-* and Forwarded headers are accepted only from these.',
        default: []
      }),
      limits,
      timeouts,
      ...accessLog,
      log: object(
        {
          level: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
            description: 'Minimum level of messages in the log.',
            default: 'info'
          }),
          buffer: size({
            description:
              'Memory for log lines that a slow reader or a full disk has not taken; further lines are dropped and counted.',
            default: '4MiB',
            min: MIB,
            max: GIB
          })
        },
        { description: 'The log on standard output.' }
      ),
      rate_limit_headers: choice(['none', 'draft'], {
        description: '"draft" adds RateLimit and RateLimit-Policy (IETF draft 10) to answers of rate-limited routes.',
        default: 'none'
      }),
      limiter: object(
        {
          budget: size({
            description: 'Maximum memory for rate-limit buckets; reserved at the start, used as buckets appear.',
            default: '1GiB',
            min: MIB,
            max: 4 * GIB
          }),
          scope: choice(['server', 'cluster'], {
            description:
              'Default scope of rate limits. server: each process counts by itself. cluster: all processes on one PostgreSQL store ' +
              'count together.',
            default: 'server'
          }),
          short_windows: option.switched({
            description: 'Accept windows of rate limits from 1s to 59s.',
            default: 'off'
          }),
          top_keys: option.switched({
            description:
              'Keep the most rejected keys of rate limits in memory for five minutes, in clear text. off: for keys that are personal ' +
              'data; GET /limits/{id}/top is then refused.',
            default: 'on'
          }),
          checkpoint: option.interval({
            description:
              'How often rate-limit counters are saved to `data`. They survive a restart; a killed process loses at most this interval. ' +
              'off: counters are not saved.',
            default: '5s',
            min: 250,
            max: HOUR
          })
        },
        { description: 'Rate limiter.' }
      ),
      geoip: object(
        {
          database: optional(
            option.file({
              description: 'Country database (.mmdb) for conn.client_ip.geo; default: the bundled one.'
            })
          )
        },
        { description: 'IP geolocation.' }
      ),
      outbound: object(
        {
          allow_private: option.switched({
            description:
              'Allow requests made by policies and modules to private, loopback and other non-public addresses.',
            default: 'off'
          }),
          ca: optional(
            option.file({
              description: 'PEM file of CA certificates to verify servers of these requests, instead of the public CAs.'
            })
          )
        },
        { description: 'Requests made by policies and modules.' }
      ),
      login,
      waf,
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
        { description: 'Key and password files.' }
      ),
      history: integer({
        description: 'Number of configuration revisions to keep in the history.',
        default: 10_000,
        min: 1,
        max: 10_000_000
      }),
      ...identity,
      engine: choice(['codec', 'http-proxy'], {
        description: 'HTTP/1.1 engine: "codec" (own parser on raw sockets) or "http-proxy" (parser of Node.js).',
        default: 'codec'
      }),
      metrics: option.switched({ description: 'Serve Prometheus metrics at GET /metrics of the API.', default: 'on' })
    },
    optionGroups
  ),
  {
    additionalProperties: false,
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Options of sluice start'
  }
)

/** Options in the form that the program uses: durations in milliseconds, sizes in bytes, addresses in parts, absolute paths. */
export type Options = Parsed<typeof optionsSchema>

/** JSON Schema of the options file. */
export function publishedOptions(): JsonSchema {
  return publish(optionsSchema as unknown as Schema, option.OPTIONS)
}
