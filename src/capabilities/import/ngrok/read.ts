import { CodedError } from '../../../lib/errors.js'
import { importErrors } from '../errors.js'
import { listenersOf } from '../listeners.js'
import {
  close,
  EXACT,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportedTcpEdge,
  type ImportSources,
  notHere,
  type RouteAction,
  type SourcePosition
} from '../model.js'
import { Ledger } from '../report.js'
import { UpstreamSet } from '../upstream-set.js'
import { type Fields, fieldsOf, textOf, textsOf } from '../values.js'
import { type PlacedDocument, readYaml } from '../yaml-document.js'
import { readKey, serverUrl } from './keys.js'

/** Reads files of the ngrok agent: tunnels (versions 1 and 2) and endpoints (version 3) become sites and TCP edges. */
export async function readNgrok(files: readonly string[], sources: ImportSources): Promise<ImportedConfig> {
  const reader = new NgrokReader()
  for (const file of files) reader.read(readYaml(await sources.readFile(file), file), file)
  return reader.config()
}

/** Keys of the file that belong to the connection to the service. */
const OF_AGENT = [
  'version',
  'authtoken',
  'agent',
  'region',
  'api_key',
  'connect_timeout',
  'console_ui',
  'console_ui_color',
  'crl_noverify',
  'dns_resolver_ips',
  'heartbeat_interval',
  'heartbeat_tolerance',
  'inspect_db_size',
  'log',
  'log_format',
  'log_level',
  'metadata',
  'proxy_url',
  'remote_management',
  'root_cas',
  'server_addr',
  'socks5_proxy',
  'update',
  'update_channel',
  'update_check',
  'web_addr',
  'web_allow_hosts'
]

class NgrokReader {
  readonly #ledger = new Ledger()
  readonly #upstreams = new UpstreamSet()
  readonly #hosts: ImportedHost[] = []
  readonly #tcp: ImportedTcpEdge[] = []

  config(): ImportedConfig {
    return {
      format: 'ngrok',
      listeners: listenersOf(this.#hosts),
      hosts: this.#hosts,
      upstreams: this.#upstreams.all(),
      tcp: this.#tcp,
      statements: this.#ledger.statements(() => EXACT)
    }
  }

  read({ data, positionOf }: PlacedDocument, file: string): void {
    const version = textOf(data.version)
    if (version !== undefined && !['1', '2', '3'].includes(version))
      throw new CodedError(importErrors.IMPORT_SYNTAX, `${file}:1:1: version ${version} is none of 1, 2 and 3`)
    for (const key of Object.keys(data)) {
      if (key === 'tunnels' || key === 'endpoints') continue
      const at = this.#record(positionOf([key]), key)
      this.#ledger.judge(
        at,
        OF_AGENT.includes(key)
          ? close('it is for the connection to the service; `sluice agent --config` has options of its own')
          : notHere('it has no counterpart', 'see docs/agents.md')
      )
    }
    for (const [name, value] of Object.entries(fieldsOf(data.tunnels))) {
      const at = this.#record(positionOf(['tunnels', name]), `tunnel ${name}`)
      this.#tunnel(name, fieldsOf(value), at, (key) => positionOf(['tunnels', name, key]))
    }
    const endpoints = Array.isArray(data.endpoints) ? data.endpoints : []
    for (const [index, value] of endpoints.entries()) {
      const fields = fieldsOf(value)
      const at = this.#record(positionOf(['endpoints', index]), `endpoint ${textOf(fields.name) ?? index}`)
      this.#endpoint(textOf(fields.name) ?? `endpoint-${index + 1}`, fields, at, (key) =>
        positionOf(['endpoints', index, key])
      )
    }
  }

  /** Adds a statement. Values that do not say their place get one beside each other. */
  #record(at: SourcePosition, text: string, within: readonly SourcePosition[] = []): SourcePosition {
    let free = at
    while (this.#ledger.has(free)) free = { ...free, column: free.column + 1 }
    this.#ledger.add(free, text, within)
    return free
  }

  #tunnel(name: string, fields: Fields, at: SourcePosition, placeOf: (key: string) => SourcePosition): void {
    const actions = this.#actions(fields, at, placeOf)
    if (fields.labels !== undefined) {
      this.#ledger.judge(
        at,
        notHere(
          'an edge of the service leads to its labels',
          'start `sluice agent --label`, and write labels of a backend'
        )
      )
      return
    }
    const proto = textOf(fields.proto) ?? 'http'
    if (proto === 'tcp' || proto === 'tls') {
      this.#edge(name, proto, textOf(fields.remote_addr) ?? '', textOf(fields.addr) ?? '', actions, at)
      return
    }
    const schemes = textsOf(fields.schemes)
    const bind = textOf(fields.bind_tls)
    const both = bind === 'both' || (schemes.includes('http') && schemes.includes('https'))
    const isPlain = bind === 'false' || (schemes.length === 1 && schemes[0] === 'http')
    const host =
      textOf(fields.hostname) ??
      textOf(fields.domain) ??
      (fields.subdomain === undefined ? undefined : `${String(fields.subdomain)}.ngrok.app`)
    const ports: HostPort[] = isPlain
      ? [{ port: 80, tls: false }]
      : [
          { port: 80, tls: false },
          { port: 443, tls: true }
        ]
    this.#site(host, ports, both, textOf(fields.addr) ?? '80', actions, at)
  }

  #endpoint(name: string, fields: Fields, at: SourcePosition, placeOf: (key: string) => SourcePosition): void {
    const actions = this.#actions(fields, at, placeOf)
    const [, scheme = 'https', authority = ''] = /^(?:(\w+):\/\/)?(.*)$/.exec(textOf(fields.url) ?? '') ?? []
    const upstream = fieldsOf(fields.upstream)
    const address = textOf(upstream.url) ?? textOf(fields.upstream) ?? ''
    if (scheme === 'tcp' || scheme === 'tls') {
      this.#edge(name, scheme, authority, address, actions, at)
      return
    }
    const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(authority.replace(/\/.*$/, '')) ?? []
    const tls = scheme === 'https'
    const own: HostPort[] =
      port === undefined
        ? tls
          ? [
              { port: 80, tls: false },
              { port: 443, tls }
            ]
          : [{ port: 80, tls }]
        : [{ port: Number(port), tls }]
    const http2 = textOf(upstream.protocol) === 'http2'
    this.#site(
      host === '' ? undefined : host,
      own,
      false,
      http2 ? address.replace(/^(?:http:\/\/)?/, 'h2c://') : address,
      actions,
      at
    )
  }

  #site(
    host: string | undefined,
    ports: readonly HostPort[],
    servesPlain: boolean,
    address: string,
    actions: readonly RouteAction[],
    at: SourcePosition
  ): void {
    const isTls = ports.some(({ tls }) => tls)
    const known = host === undefined ? undefined : this.#hosts.find(({ names }) => names.includes(host.toLowerCase()))
    if (known !== undefined) {
      this.#ledger.judge(at, notHere('another tunnel of these files has its host', 'name all servers in one backend'))
      return
    }
    if (host === undefined) {
      if (this.#hosts.some(({ names }) => names.includes('*'))) {
        this.#ledger.judge(at, notHere('it has no host, and another one has the rest of all hosts', 'write a host'))
        return
      }
      this.#ledger.judge(at, close('it gets every host that no other site has, in place of a random name'))
    } else
      this.#ledger.judge(
        at,
        isTls
          ? close('its certificate needs acme: { agree_to_terms: true }, and its name leads to this machine')
          : EXACT
      )
    const url = serverUrl(address, 'http')
    const all = {
      at,
      verdict: EXACT,
      label: 'tunnel',
      tests: [{ kind: 'path-prefix', path: '/', border: 'text' } as const]
    }
    let target: { target?: { kind: 'upstream'; upstream: string } } = {}
    if (url !== undefined)
      target = {
        target: {
          kind: 'upstream',
          upstream: this.#upstreams.add(
            { servers: [{ url }], ...(url.startsWith('https:') ? { tls: { insecure: true } } : {}) },
            at
          )
        }
      }
    else
      this.#ledger.judge(
        at,
        notHere('its address is no server, such as a folder; the site answers 503', 'write files of the site')
      )
    this.#hosts.push({
      at,
      verdict: EXACT,
      names: [(host ?? '*').toLowerCase()],
      ports,
      plainHttp: !isTls || servesPlain ? 'serve' : 'redirect',
      actions: [],
      routes: [
        { ...all, actions: url === undefined ? [...actions, { kind: 'respond', status: 503, at }] : actions, ...target }
      ]
    })
  }

  #edge(
    name: string,
    proto: string,
    remote: string,
    address: string,
    actions: readonly RouteAction[],
    at: SourcePosition
  ): void {
    const port = /:(\d+)$/.exec(remote)?.[1]
    const url = serverUrl(address, 'tcp')
    const reason =
      proto === 'tls'
        ? 'it ends or passes TLS by name'
        : port === undefined
          ? 'its port is not known'
          : actions.length > 0
            ? 'what it checks is not converted'
            : url === undefined
              ? 'its address is no server'
              : undefined
    if (reason !== undefined || url === undefined) {
      this.#ledger.judge(
        at,
        notHere(
          `${reason}; its port is not opened`,
          'write tcp of the site file, a site with tls: passthrough, or start `sluice agent --tcp`'
        )
      )
      return
    }
    this.#ledger.judge(at, EXACT)
    this.#tcp.push({
      port: Number(port),
      upstream: this.#upstreams.add({ servers: [{ url }] }, at, name.replace(/[^\w-]+/g, '-')),
      at,
      verdict: EXACT
    })
  }

  /** Actions of the keys of a tunnel. A check that is not converted answers 503. */
  #actions(fields: Fields, tunnel: SourcePosition, placeOf: (key: string) => SourcePosition): RouteAction[] {
    const actions: RouteAction[] = []
    for (const [key, value] of Object.entries(fields)) {
      const at = this.#record(
        placeOf(key),
        `${key}: ${typeof value === 'object' ? '…' : key.includes('auth') ? '…' : (textOf(value) ?? '')}`,
        [tunnel]
      )
      const { added, verdict } = readKey(key, value, at)
      actions.push(...added)
      this.#ledger.judge(at, verdict)
    }
    // Checks come before fields, whatever the order of the keys.
    return [
      ...actions.filter(({ kind }) => kind === 'respond'),
      ...actions.filter(({ kind }) => kind === 'addresses' || kind === 'native'),
      ...actions.filter(({ kind }) => !['respond', 'addresses', 'native'].includes(kind))
    ]
  }
}
