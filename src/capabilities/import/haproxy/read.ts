import { secondsOfDuration } from '../durations.js'
import {
  close,
  EXACT,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportedListener,
  type ImportedRoute,
  type ImportedTcpEdge,
  type ImportSources,
  notHere,
  type RouteAction,
  type RouteTest,
  type Verdict
} from '../model.js'
import { withoutShadowed } from '../reachable.js'
import { Ledger } from '../report.js'
import { UpstreamSet } from '../upstream-set.js'
import { readBackend } from './backends.js'
import { aclsOf, conditionTests, splitCondition } from './conditions.js'
import { type RuleContext, readRequestRule, readResponseRule, type User, valueAfter } from './rules.js'
import { type HaproxyLine, type HaproxySection, haproxyText, parseHaproxy } from './syntax.js'
import { usersOf, usualVerdict } from './usual.js'

const PROXIES = ['frontend', 'backend', 'listen']

/** Checks or changes that are not converted: what they stand in answers 503. */
const CLOSING = [
  'filter',
  'use-fcgi-app',
  'http-after-response',
  'http-error',
  'block',
  'reqdeny',
  'reqideny',
  'rspdeny',
  'reqrep',
  'reqirep',
  'force-persist',
  'use-server'
]

/** Reads configuration files of HAProxy. */
export async function readHaproxy(files: readonly string[], sources: ImportSources): Promise<ImportedConfig> {
  const sections: HaproxySection[] = []
  for (const file of files) sections.push(...parseHaproxy(await sources.readFile(file), file))
  return new HaproxyReader(sections, sources).read()
}

/** A frontend, or a backend, with what it inherits. */
interface Proxy extends HaproxySection {
  /** Lines of `defaults`, then its own. */
  readonly all: readonly HaproxyLine[]
  readonly isTcp: boolean
}

class HaproxyReader {
  readonly #sections: readonly HaproxySection[]
  readonly #sources: ImportSources
  readonly #ledger = new Ledger()
  readonly #upstreams = new UpstreamSet()
  readonly #proxies: Proxy[] = []
  readonly #users = new Map<string, User[]>()
  readonly #listeners: ImportedListener[] = []
  readonly #hosts: ImportedHost[] = []
  readonly #tcp: ImportedTcpEdge[] = []

  constructor(sections: readonly HaproxySection[], sources: ImportSources) {
    this.#sections = sections
    this.#sources = sources
  }

  read(): ImportedConfig {
    const defaults = new Map<string, HaproxySection>()
    let usual: HaproxySection | undefined
    for (const section of this.#sections) {
      const { kind, name, from, at, lines } = section
      this.#ledger.add(at, haproxyText([kind, ...(name === '' ? [] : [name])]))
      this.#ledger.judge(at, EXACT)
      for (const line of lines) this.#ledger.add(line.at, haproxyText(line.words), [at])
      const filled = { ...section, lines: lines.map((line) => this.#filled(line)) }
      if (kind === 'defaults') {
        usual = filled
        defaults.set(name, filled)
      } else if (kind === 'userlist') this.#users.set(name, usersOf(filled, this.#ledger))
      else if (PROXIES.includes(kind)) {
        const all = [...((from === undefined ? usual : defaults.get(from))?.lines ?? []), ...filled.lines]
        const mode = all.findLast(({ words }) => words[0] === 'mode')?.words[1]
        this.#proxies.push({ ...filled, all, isTcp: mode === 'tcp' })
      } else if (kind !== 'global')
        this.#ledger.judge(at, close('it is not converted; nothing that was converted uses it'))
    }
    for (const proxy of this.#proxies) {
      if (proxy.kind === 'backend') continue
      if (proxy.isTcp) this.#tcpEdges(proxy)
      else this.#frontend(proxy)
    }
    return {
      format: 'haproxy',
      listeners: this.#listeners,
      hosts: this.#hosts,
      upstreams: this.#upstreams.all(),
      tcp: this.#tcp,
      statements: this.#ledger.statements(usualVerdict)
    }
  }

  /** Variables of the environment stay in addresses of servers; elsewhere they are filled in where they are set. */
  #filled(line: HaproxyLine): HaproxyLine {
    if (line.words[0] === 'server') return line
    const fill = (word: string) =>
      word.replace(
        /\$\{(\w+)(?:-([^{}]*))?\}/g,
        (all, name: string, value?: string) => this.#sources.environment[name] ?? value ?? all
      )
    return { ...line, words: line.words.map(fill) }
  }

  /** Ports of the `bind` lines of a section. */
  #binds(
    { lines, name, at: section }: Proxy,
    isHttp: boolean
  ): { readonly ports: HostPort[]; readonly host: Partial<ImportedHost>; readonly isClosed: boolean } {
    const ports: HostPort[] = []
    let host: Partial<ImportedHost> = {}
    let isClosed = false
    for (const { words, at } of lines.filter(({ words: [keyword] }) => keyword === 'bind')) {
      const [, addresses = '', ...options] = words
      const tls = options.includes('ssl')
      const certificate = valueAfter(options, 'crt')
      let verdict: Verdict = EXACT
      if (options.includes('verify')) {
        const [mode, caFile] = [valueAfter(options, 'verify'), valueAfter(options, 'ca-file')]
        if (mode === 'required' && caFile !== undefined)
          host = { ...host, clientCertificates: { caFile, required: true } }
        else if (mode !== 'none') {
          isClosed = true
          verdict = notHere('clients without a certificate may pass; the site answers 503', 'write mutual_tls')
        }
      }
      if (tls && certificate !== undefined && /\.\w+$/.test(certificate)) {
        host = {
          ...host,
          certificate: { certificateFile: certificate, keyFile: certificate, at: section, verdict: EXACT }
        }
        verdict = verdict.kind === 'exact' ? close('certificate and key are read from the same file') : verdict
      } else if (tls && verdict.kind === 'exact')
        verdict = notHere('the certificates of a folder or list are not known here', 'list them below certificates')
      if (valueAfter(options, 'ssl-min-ver') === 'TLSv1.3') host = { ...host, minTlsVersion: '1.3' }
      for (const written of addresses.split(',')) {
        const [, address = '', port = ''] = /^(?:ipv[46]@)?(.*):(\d+)$/.exec(written) ?? []
        if (port === '') {
          verdict = notHere(`"${written}" of ${name} is no address with one port`, 'write a listener')
          continue
        }
        ports.push({ port: Number(port), tls })
        const bare = address.replace(/^\[|\]$/g, '')
        if (isHttp)
          this.#listeners.push({
            address: bare === '' || bare === '*' ? '0.0.0.0' : bare,
            port: Number(port),
            tls,
            proxyProtocol: options.includes('accept-proxy'),
            at,
            verdict: EXACT
          })
      }
      this.#ledger.judge(at, verdict)
    }
    return { ports, host, isClosed }
  }

  #backend(name: string): Proxy | undefined {
    return this.#proxies.find((one) => one.name === name && one.kind !== 'frontend')
  }

  #tcpEdges(proxy: Proxy): void {
    const { ports } = this.#binds(proxy, false)
    const checks = proxy.all.filter(
      ({ words: [first, second] }) =>
        first === 'use_backend' ||
        (first === 'tcp-request' && second !== 'inspect-delay') ||
        CLOSING.includes(first ?? '')
    )
    for (const { at } of checks)
      this.#ledger.judge(
        at,
        notHere(
          'what it decides by is not converted, so that the port is not opened',
          'write tcp with a policy, or a site with tls: passthrough'
        )
      )
    const isTls = ports.some(({ tls }) => tls)
    if (isTls)
      this.#ledger.judge(
        proxy.at,
        notHere(
          'a TCP edge that ends TLS needs a policy, so that the port is not opened',
          'write the action terminate-tls'
        )
      )
    const name = proxy.all.findLast(({ words: [first] }) => first === 'default_backend')?.words[1]
    const backend = proxy.kind === 'listen' ? proxy : this.#backend(name ?? '')
    const read = backend === undefined ? undefined : readBackend(backend.all, this.#ledger, true)
    if (backend === undefined || read === undefined || read.settings.servers.length === 0 || checks.length > 0 || isTls)
      return
    const upstream = this.#upstreams.add(read.settings, backend.at, backend.name)
    for (const { port } of ports) this.#tcp.push({ port, upstream, at: proxy.at, verdict: EXACT })
  }

  #context(proxy: Proxy): RuleContext {
    return { acls: aclsOf(proxy.lines), users: this.#users, section: proxy.name, ...this.#rateOf(proxy) }
  }

  /** Period of the rate of requests in the stick table of the section, or in the one that it tracks. */
  #rateOf({ lines }: Proxy): { ratePeriod?: number } {
    const tracked = lines
      .map(({ words }) =>
        words[0] === 'http-request' && words[1]?.startsWith('track-sc') === true
          ? (valueAfter(words, 'table') ?? '')
          : undefined
      )
      .find((name) => name !== undefined)
    const table =
      tracked === undefined || tracked === ''
        ? lines
        : (this.#proxies.find(({ name }) => name === tracked)?.lines ?? [])
    const stick = table.find(({ words: [first] }) => first === 'stick-table')
    const period = /http_req_rate\(([^()]+)\)/.exec(stick?.words.join(' ') ?? '')?.[1]
    const seconds = period === undefined ? undefined : secondsOfDuration(period, 'ms')
    if (stick !== undefined)
      this.#ledger.judge(
        stick.at,
        seconds === undefined ? close('nothing that was converted uses it') : close('rate-limit counts by itself')
      )
    return seconds === undefined ? {} : { ratePeriod: seconds }
  }

  /** Actions of the rules of a section, in the order in which HAProxy runs them. */
  #rules(proxy: Proxy): RouteAction[] {
    const context = this.#context(proxy)
    const actions: RouteAction[] = []
    const of = (keyword: string) => proxy.all.filter(({ words }) => words[0] === keyword)
    for (const line of of('http-request')) {
      const rule = readRequestRule({ ...line, words: line.words.slice(1) }, context)
      actions.push(...rule.actions)
      this.#ledger.judge(line.at, rule.verdict)
    }
    for (const line of of('redirect')) {
      const rule = readRequestRule(line, context)
      actions.push(...rule.actions)
      this.#ledger.judge(line.at, rule.verdict)
    }
    for (const line of of('http-response')) {
      const rule = readResponseRule({ ...line, words: line.words.slice(1) }, context)
      actions.push(...rule.actions)
      this.#ledger.judge(line.at, rule.verdict)
    }
    for (const { words, at } of proxy.all) {
      const [keyword = '', first = ''] = words
      const isCheck =
        (keyword === 'tcp-request' && first !== 'inspect-delay') || (keyword === 'stats' && first === 'uri')
      if (CLOSING.includes(keyword) || isCheck) {
        const isStats = keyword === 'stats'
        this.#ledger.judge(
          at,
          isStats
            ? notHere('Sluice has no such page', 'read GET /metrics, or the dashboard')
            : notHere('what it decides is not converted; the route answers 503', 'write a rule of the policy')
        )
        actions.unshift({
          kind: 'respond',
          status: isStats ? 404 : 503,
          at,
          ...(isStats ? { when: `req.url.path.startsWith('${(words[2] ?? '/').replace(/['\\]/g, '')}')` } : {})
        })
      } else if (keyword === 'compression' && first === 'algo') {
        actions.push({ kind: 'compress', algorithms: [], at })
        this.#ledger.judge(
          at,
          close('br, zstd and gzip are offered for all compressible types, and not on requests with cookies')
        )
      }
    }
    return actions
  }

  #frontend(proxy: Proxy): void {
    const { ports, host, isClosed } = this.#binds(proxy, true)
    const { at, name } = proxy
    const before = this.#rules(proxy)
    const acls = aclsOf(proxy.lines)
    const changesPath = before.some(({ kind }) => kind === 'rewrite')
    const routes: ImportedRoute[] = []
    const monitor = proxy.all.find(({ words: [first] }) => first === 'monitor-uri')
    if (monitor !== undefined) {
      this.#ledger.judge(monitor.at, EXACT)
      routes.push(
        this.#answer(
          monitor,
          [{ kind: 'path-exact', path: monitor.words[1] ?? '/' }],
          [{ kind: 'respond', status: 200, at: monitor.at }]
        )
      )
    }
    for (const line of proxy.lines.filter(({ words: [first] }) => first === 'use_backend')) {
      const { words, condition } = splitCondition(line.words, acls)
      const tests = conditionTests(condition)
      const seesNewPath = changesPath && JSON.stringify(tests ?? '').includes('path')
      const backend = this.#backend(words[1] ?? '')
      const problem =
        tests === undefined
          ? 'its condition has no counterpart'
          : seesNewPath
            ? 'its condition is on a path that a rule has changed'
            : backend === undefined
              ? 'its backend is not known before a request'
              : undefined
      if (problem !== undefined || tests === undefined || backend === undefined) {
        this.#ledger.judge(
          line.at,
          notHere(
            `${problem}; its requests, and those of later rules, answer 503`,
            'write an expression and forward-internal'
          )
        )
        routes.push(
          this.#answer(line, seesNewPath || tests === undefined ? [] : tests, [
            ...before,
            { kind: 'respond', status: 503, at: line.at }
          ])
        )
        if (tests === undefined || seesNewPath) break
        continue
      }
      this.#ledger.judge(line.at, EXACT)
      routes.push(this.#served(backend, line, tests, before))
    }
    const usual = proxy.all.findLast(({ words: [first] }) => first === 'default_backend')
    if (usual !== undefined) this.#ledger.judge(usual.at, EXACT)
    const backend = proxy.kind === 'listen' && usual === undefined ? proxy : this.#backend(usual?.words[1] ?? '')
    routes.push(this.#served(backend, usual ?? { words: [proxy.kind, name], at }, [], proxy === backend ? [] : before))
    const { routes: reached, shadowed } = withoutShadowed(routes)
    for (const { at: place } of shadowed)
      if (place !== at) this.#ledger.judge(place, close('another rule takes all its requests first'))
    this.#hosts.push({
      at,
      verdict: EXACT,
      names: ['*'],
      ports,
      ...host,
      plainHttp: 'serve',
      actions: isClosed ? [{ kind: 'respond', status: 503, at }] : [],
      routes: reached
    })
  }

  #answer({ words, at }: HaproxyLine, tests: readonly RouteTest[], actions: readonly RouteAction[]): ImportedRoute {
    return { at, verdict: EXACT, label: haproxyText(words).slice(0, 60), tests: orAll(tests), actions }
  }

  /** A route to a backend; without one HAProxy answers 503. */
  #served(
    backend: Proxy | undefined,
    line: HaproxyLine,
    tests: readonly RouteTest[],
    before: readonly RouteAction[]
  ): ImportedRoute {
    const unavailable: RouteAction = { kind: 'respond', status: 503, at: line.at }
    if (backend === undefined) return this.#answer(line, tests, [...before, unavailable])
    const actions = [...before, ...this.#rules(backend)]
    const { settings, timeouts } = readBackend(backend.all, this.#ledger, false)
    if (settings.servers.length === 0 || backend.isTcp) return this.#answer(line, tests, [...actions, unavailable])
    const upstream = this.#upstreams.add(settings, backend.at, backend.name)
    return {
      ...this.#answer(line, tests, actions),
      target: { kind: 'upstream', upstream },
      ...(timeouts === undefined ? {} : { timeouts })
    }
  }
}

const orAll = (tests: readonly RouteTest[]): readonly RouteTest[] =>
  tests.length === 0 ? [{ kind: 'path-prefix', path: '/', border: 'text' }] : tests
