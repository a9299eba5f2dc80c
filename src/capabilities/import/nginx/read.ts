import {
  close,
  EXACT,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportSources,
  notHere,
  type RouteAction,
  type SourcePosition
} from '../model.js'
import { Ledger } from '../report.js'
import { usualVerdict } from './directives.js'
import { folderOf, IncludeReader } from './include.js'
import { Level } from './level.js'
import { type Endpoint, readListen } from './listen.js'
import { namesOf, sortDefaults } from './names.js'
import { ServerReader } from './server.js'
import { type Directive, directiveText } from './syntax.js'
import { type Reading, Upstreams } from './targets.js'
import { readUpstream } from './upstreams.js'
import { Variables } from './variables.js'

/** Blocks whose lines are entries of one statement. */
const TABLES = ['map', 'types', 'geo', 'split_clients', 'charset_map', 'events']

/** A server block before its names and ports are those of a site. */
export interface ServerBlock {
  readonly directive: Directive
  readonly level: Level
  readonly endpoints: readonly Endpoint[]
  readonly host: ImportedHost
  /** It only sends clients to HTTPS. */
  readonly sendsToHttps: boolean
}

/** Reads configuration files of nginx: a whole nginx.conf, or files of its `http` block such as those of conf.d. */
export async function readNginx(files: readonly string[], sources: ImportSources): Promise<ImportedConfig> {
  const includes = new IncludeReader(sources, folderOf(files[0] as string))
  const all: Directive[] = []
  for (const file of files) all.push(...(await includes.read(file)))
  const ledger = new Ledger()
  recordAll(all, ledger, [])
  const start: SourcePosition = { file: files[0] as string, line: 1, column: 1 }
  const main = new Level({ directives: all, at: start }, ledger)
  const http = all.filter(({ name }) => name === 'http')
  const inHttp =
    http.length === 0
      ? all
      : [
          ...http.flatMap(({ block }) => block ?? []),
          ...all.filter(({ name }) => name === 'server' || name === 'upstream')
        ]
  const level = main.inner({ directives: inHttp, at: http[0]?.at ?? start })
  return readHttp(level, ledger)
}

function recordAll(directives: readonly Directive[], ledger: Ledger, within: readonly SourcePosition[]): void {
  for (const directive of directives) {
    ledger.add(directive.at, directiveText(directive), within)
    if (directive.block === undefined || TABLES.includes(directive.name)) continue
    recordAll(directive.block, ledger, [directive.at, ...within])
  }
}

function readHttp(level: Level, ledger: Ledger): ImportedConfig {
  const maps = new Map(level.own('map').map((map) => [(map.args[1] ?? '').replace('$', ''), map]))
  const variables = new Variables(maps)
  const zones = new Map(
    level
      .own('limit_req_zone')
      .map((zone) => [/^zone=([^:]+)/.exec(zone.args.find((arg) => arg.startsWith('zone=')) ?? '')?.[1] ?? '', zone])
  )
  const upstreams = new Upstreams()
  for (const directive of level.own('upstream')) upstreams.add(readUpstream(directive, ledger, variables))
  const blocks = level
    .own('server')
    .map((directive) => readServerBlock(directive, level, { variables, zones, upstreams, named: new Map() }))
  const hosts = mergeHosts(blocks, level)
  for (const [name, map] of maps) {
    const isConnection = map.args[0] === '$http_upgrade'
    const convertible = variables.mapValue(map) !== undefined
    if (variables.used.has(name) && !convertible)
      level.judge(map, notHere('its values or keys have no expression', 'write set-vars with an expression'))
    else
      level.judge(map, isConnection || variables.used.has(name) ? EXACT : close('nothing that was converted uses it'))
  }
  const endpoints = blocks.flatMap((block) => block.endpoints)
  const listeners = [...new Map(endpoints.map((one) => [`${one.address}:${one.port}`, one])).values()]
  const tls = new Set(endpoints.filter(({ tls }) => tls).map(({ address, port }) => `${address}:${port}`))
  return {
    format: 'nginx',
    listeners: listeners.map(({ address, port, proxyProtocol, at }) => ({
      address,
      port,
      tls: tls.has(`${address}:${port}`),
      proxyProtocol,
      at,
      verdict: EXACT
    })),
    hosts,
    upstreams: upstreams.all(),
    statements: ledger.statements((text) => usualVerdict(/^[^\s;{]+/.exec(text)?.[0] ?? ''))
  }
}

function readServerBlock(directive: Directive, outer: Level, reading: Reading): ServerBlock {
  const level = outer.inner({ directives: directive.block ?? [], at: directive.at })
  level.judge(directive, EXACT)
  const endpoints = readListen(level, directive.at)
  const names = namesOf(level)
  const named = new Map(
    level
      .own('location')
      .filter(({ args: [name = ''] }) => name.startsWith('@'))
      .map((one) => [one.args[0] as string, one])
  )
  const variables =
    names[0] === undefined ? reading.variables : reading.variables.with('server_name', { text: names[0] })
  const { actions, routes } = new ServerReader(level, {
    ...reading,
    variables: portOf(variables, endpoints),
    named
  }).read()
  const used = [...reading.variables.used].flatMap((name) =>
    mapAction(name, variables, JSON.stringify([actions, routes]))
  )
  const ports: HostPort[] = [...new Map(endpoints.map(({ port, tls }) => [port, { port, tls }])).values()]
  const host: ImportedHost = {
    at: directive.at,
    verdict: EXACT,
    names,
    ports,
    ...certificateOf(level),
    actions: [...used, ...actions],
    routes
  }
  return { directive, level, endpoints, host, sendsToHttps: sendsToHttps(level, ports) }
}

function portOf(variables: Variables, endpoints: readonly Endpoint[]): Variables {
  const [first, ...others] = new Set(endpoints.map(({ port }) => port))
  return first === undefined || others.length > 0 ? variables : variables.with('server_port', { text: String(first) })
}

function mapAction(name: string, variables: Variables, text: string): RouteAction[] {
  const map = variables.map(name)
  const cel = map === undefined || !text.includes(`vars.${name}`) ? undefined : variables.mapValue(map)
  return cel === undefined || map === undefined ? [] : [{ kind: 'variable', name, cel, at: map.at }]
}

function certificateOf(level: Level): Partial<ImportedHost> {
  const certificate = level.one('ssl_certificate')
  const [certificateFile, keyFile] = [level.value('ssl_certificate'), level.value('ssl_certificate_key')]
  for (const name of ['ssl_certificate', 'ssl_certificate_key'])
    for (const one of level.all(name)) level.judge(one, EXACT)
  const own =
    certificate === undefined || certificateFile === undefined || keyFile === undefined
      ? {}
      : { certificate: { certificateFile, keyFile, at: certificate.at, verdict: EXACT } }
  const verify = level.value('ssl_verify_client')
  const caFile = level.value('ssl_client_certificate')
  for (const name of ['ssl_verify_client', 'ssl_client_certificate']) {
    for (const one of level.all(name))
      level.judge(
        one,
        verify === 'on' && caFile !== undefined
          ? EXACT
          : notHere('clients without a certificate pass', 'use mutual_tls, or terminate-tls on a TCP edge')
      )
  }
  const protocols = level.one('ssl_protocols')
  if (protocols !== undefined) {
    const old = protocols.args.some((version) => ['TLSv1', 'TLSv1.1', 'SSLv3'].includes(version))
    level.judge(protocols, old ? close('TLS 1.2 and 1.3 alone are taken') : EXACT)
  }
  return {
    ...own,
    ...(verify === 'on' && caFile !== undefined ? { clientCertificates: { caFile, required: true } } : {}),
    ...(protocols?.args.join() === 'TLSv1.3' ? { minTlsVersion: '1.3' } : {})
  }
}

/** Does a server without TLS only redirect to the same URL with `https`? Also in the form that certbot writes. */
function sendsToHttps(level: Level, ports: readonly HostPort[]): boolean {
  if (ports.some(({ tls }) => tls)) return false
  const directives = level.directives.flatMap((one) =>
    one.name === 'location' && one.args[0] === '/' ? (one.block ?? []) : one.name === 'if' ? (one.block ?? []) : [one]
  )
  const returns = directives.filter(({ name }) => name === 'return')
  const toHttps = returns.filter(({ args }) =>
    /^https:\/\/(?:\$host|\$server_name|\$http_host|[\w.-]+)(?::443)?\$request_uri$/.test(args.at(-1) ?? '')
  )
  const others = directives.filter(({ name }) => ['location', 'proxy_pass', 'rewrite', 'try_files'].includes(name))
  return (
    toHttps.length > 0 &&
    others.every(({ args: [path = ''] }) => path.includes('/.well-known/acme-challenge')) &&
    returns.every((one) => toHttps.includes(one) || one.args[0] === '404')
  )
}

/** Hosts of all blocks: one that only sends to HTTPS is part of the site with TLS, and the default servers get the other names. */
function mergeHosts(blocks: readonly ServerBlock[], level: Level): ImportedHost[] {
  const secure = blocks.filter(({ host }) => host.ports.some(({ tls }) => tls))
  const merged = blocks.filter(
    ({ sendsToHttps, host }) =>
      sendsToHttps && host.names.every((name) => secure.some((other) => other.host.names.includes(name)))
  )
  for (const { directive } of merged) {
    const returns =
      directive.block?.flatMap((one) => [one, ...(one.block ?? [])]).filter(({ name }) => name === 'return') ?? []
    for (const one of returns)
      level.judge(one, close('clients without TLS get 308, which keeps the method, in place of 301'))
    for (const location of directive.block?.filter(({ name }) => name === 'location') ?? []) {
      if (location.args.join(' ').includes('acme-challenge'))
        level.judge(location, close('Sluice answers challenges of its own certificates by itself'))
    }
  }
  const ports = new Map<ImportedHost, readonly HostPort[]>()
  for (const { host } of merged) {
    const target = secure.find((other) => host.names.some((name) => other.host.names.includes(name)))
    if (target !== undefined) ports.set(target.host, [...(ports.get(target.host) ?? target.host.ports), ...host.ports])
  }
  const kept = blocks.filter((block) => !merged.includes(block))
  const hosts = sortDefaults(kept).map(({ host, names }): ImportedHost => {
    const mergedPorts = ports.get(host)
    const secured = host.ports.some(({ tls }) => tls)
    const plainHttp = host.ports.some(({ tls }) => !tls) ? 'serve' : 'redirect'
    return {
      ...host,
      names,
      ports: mergedPorts ?? host.ports,
      ...(secured || plainHttp === 'serve' ? { plainHttp } : {})
    }
  })
  return hosts.filter(({ names }) => names.length > 0)
}
