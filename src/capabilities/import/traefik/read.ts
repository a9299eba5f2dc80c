import { celText } from '../cel.js'
import { listenersOf } from '../listeners.js'
import {
  close,
  EXACT,
  type HostPort,
  type ImportedConfig,
  type ImportedHost,
  type ImportedRoute,
  type ImportSources,
  notHere,
  type RouteAction,
  type RouteTest,
  type SourcePosition,
  type Verdict
} from '../model.js'
import { withoutShadowed } from '../reachable.js'
import { Ledger } from '../report.js'
import { UpstreamSet } from '../upstream-set.js'
import { type Fields, fieldsOf, numberOf, textOf, textsOf } from '../values.js'
import type { PlacedDocument } from '../yaml-document.js'
import { readDocument } from './documents.js'
import { readLabels } from './labels.js'
import { readMiddleware } from './middlewares.js'
import { matcherTests, parseRule, type Rule, RuleSyntaxError, ruleCel, splitHosts } from './rules.js'

/** Reads files of Traefik: dynamic configuration in YAML or TOML, the static one with its entry points, and compose files with labels. */
export async function readTraefik(files: readonly string[], sources: ImportSources): Promise<ImportedConfig> {
  const documents: PlacedDocument[] = []
  for (const file of files) {
    const document = readDocument(await sources.readFile(file), file)
    documents.push(readLabels(document) ?? document)
  }
  return new TraefikReader(documents).read()
}

interface Named {
  readonly fields: Fields
  readonly at: SourcePosition
  readonly document: PlacedDocument
}

interface Router extends Named {
  readonly name: string
  readonly rule: string
  readonly priority: number
  readonly ports: readonly HostPort[]
}

interface HostParts {
  readonly routes: ImportedRoute[]
  readonly ports: Map<number, HostPort>
  readonly at: SourcePosition
}

/** Names without the provider behind `@`. */
const bare = (name: string) => name.replace(/@\w+$/, '')

/** Lower-case keys: labels and files differ in case. */
function lowered(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key.toLowerCase(), value]))
}

class TraefikReader {
  readonly #documents: readonly PlacedDocument[]
  readonly #ledger = new Ledger()
  readonly #upstreams = new UpstreamSet()
  readonly #middlewares = new Map<string, Named>()
  readonly #services = new Map<string, Named>()
  readonly #entryPoints = new Map<string, { readonly port: number; readonly tls: boolean; readonly toHttps: boolean }>()
  readonly #recorded = new Set<string>()

  constructor(documents: readonly PlacedDocument[]) {
    this.#documents = documents
  }

  read(): ImportedConfig {
    for (const document of this.#documents) this.#static(document)
    for (const [section, target] of [
      ['middlewares', this.#middlewares],
      ['services', this.#services]
    ] as const)
      for (const [name, named] of this.#section(section)) target.set(name, named)
    const routers = [...this.#section('routers')].flatMap(([name, named]) => this.#router(name, named))
    routers.sort((one, other) => other.priority - one.priority)
    const hosts = this.#hosts(routers)
    return {
      format: 'traefik',
      listeners: listenersOf(hosts),
      hosts,
      upstreams: this.#upstreams.all(),
      statements: this.#ledger.statements(() => close('no router that was converted uses it'))
    }
  }

  #record(at: SourcePosition, text: string, verdict?: Verdict): SourcePosition {
    const key = `${at.file}:${at.line}:${at.column}`
    if (!this.#recorded.has(key)) {
      this.#recorded.add(key)
      this.#ledger.add(at, text)
    }
    if (verdict !== undefined) this.#ledger.judge(at, verdict)
    return at
  }

  #static({ data, positionOf }: PlacedDocument): void {
    for (const [name, value] of Object.entries(fieldsOf(data.entryPoints ?? data.entrypoints))) {
      const fields = fieldsOf(value)
      const port = /:(\d+)(?:\/tcp)?$/.exec(textOf(fields.address) ?? '')?.[1]
      const http = fieldsOf(fields.http)
      const toHttps = Object.keys(fieldsOf(fieldsOf(http.redirections).entryPoint)).length > 0
      const at = positionOf(['entryPoints', name])
      this.#record(
        at,
        `entryPoints.${name}`,
        port === undefined
          ? notHere('its address has no port of TCP', 'write a listener')
          : toHttps
            ? close('clients without TLS get 308')
            : EXACT
      )
      if (port !== undefined)
        this.#entryPoints.set(name, {
          port: Number(port),
          tls: http.tls !== undefined || name === 'websecure',
          toHttps
        })
    }
    for (const key of Object.keys(data))
      if (!['entryPoints', 'http', 'services'].includes(key))
        this.#record(
          positionOf([key]),
          key,
          key === 'tcp' || key === 'udp' || key === 'tls'
            ? notHere('it is not converted', 'write tcp or certificates of the site file')
            : close('options of Sluice say it (docs/reference/options.md)')
        )
  }

  *#section(section: string): Generator<[string, Named]> {
    for (const document of this.#documents) {
      for (const [name, value] of Object.entries(fieldsOf(fieldsOf(document.data.http)[section]))) {
        const at = document.positionOf(['http', section, name])
        this.#record(at, `http.${section}.${name}`)
        yield [name, { fields: lowered(fieldsOf(value)), at, document }]
      }
    }
  }

  #router(name: string, named: Named): Router[] {
    const rule = textOf(named.fields.rule) ?? ''
    const wanted = textsOf(named.fields.entrypoints)
    const names = wanted.length > 0 ? wanted : this.#entryPoints.size > 0 ? [...this.#entryPoints.keys()] : []
    const tls = named.fields.tls !== undefined && textOf(named.fields.tls) !== 'false'
    const ports = names.map((point): HostPort => {
      const known = this.#entryPoints.get(point)
      if (known !== undefined) return { port: known.port, tls: tls || known.tls }
      return point === 'websecure' || point === 'https' ? { port: 443, tls: true } : { port: 80, tls }
    })
    return [
      {
        ...named,
        name,
        rule,
        priority: numberOf(named.fields.priority) ?? rule.length,
        ports: ports.length > 0 ? ports : [{ port: tls ? 443 : 80, tls }]
      }
    ]
  }

  #hosts(routers: readonly Router[]): ImportedHost[] {
    const byName = new Map<string, HostParts>()
    const parsed = routers.flatMap((router) => {
      const rule = this.#rule(router)
      return rule === undefined ? [] : [{ router, ...splitHosts(rule) }]
    })
    const exact = [...new Set(parsed.flatMap(({ hosts }) => hosts))]
    for (const { router, hosts, rest } of parsed) {
      const route = this.#route(router, rest)
      // A router without a host is also for the hosts of others.
      for (const name of hosts.includes('*') ? exact : hosts) {
        const host: HostParts = byName.get(name) ?? { routes: [], ports: new Map(), at: router.at }
        byName.set(name, host)
        host.routes.push(route)
        for (const port of router.ports)
          host.ports.set(port.port, { port: port.port, tls: port.tls || host.ports.get(port.port)?.tls === true })
      }
    }
    return [...byName].map(([name, { routes, ports, at }]): ImportedHost => {
      const reached = withoutShadowed(routes)
      for (const { at: place } of reached.shadowed)
        this.#ledger.judge(place, close(`another router of ${name} takes all its requests first`))
      const redirect = [...this.#entryPoints.values()].find(({ toHttps }) => toHttps)
      const all = [...ports.values()]
      const isTls = all.some(({ tls }) => tls)
      const merged =
        isTls && redirect !== undefined && !ports.has(redirect.port)
          ? [{ port: redirect.port, tls: false }, ...all]
          : all
      if (isTls && name !== '*')
        this.#ledger.judge(at, close('its certificate needs acme: { agree_to_terms: true }, or a list of certificates'))
      return {
        at,
        verdict: EXACT,
        names: [name],
        ports: merged,
        ...(redirect === undefined ? { plainHttp: 'serve' } : { plainHttp: 'redirect' }),
        actions: [],
        routes: reached.routes
      }
    })
  }

  /** The rule of a router; one that cannot be read closes the router's requests, which are not known: it has no route. */
  #rule({ rule, at, document, name }: Router): Rule | undefined {
    try {
      return parseRule(rule)
    } catch (error) {
      if (!(error instanceof RuleSyntaxError)) throw error
      const place = document.positionOf(['http', 'routers', name, 'rule'])
      this.#record(place, `rule ${rule}`.slice(0, 100))
      this.#ledger.judge(at, notHere(`its rule cannot be read: ${error.message}`, 'correct it'))
      return { kind: 'matcher', name: 'Unreadable', args: [] }
    }
  }

  #route(router: Router, rest: readonly Rule[]): ImportedRoute {
    const { at, name, fields } = router
    const tests = this.#tests(rest)
    const actions = textsOf(fields.middlewares).flatMap((middleware) => this.#actions(bare(middleware), at, 0))
    const label = `router ${name}`
    const all = (given: readonly RouteTest[]): readonly RouteTest[] =>
      given.length === 0 ? [{ kind: 'path-prefix', path: '/', border: 'text' }] : given
    const closed: RouteAction = { kind: 'respond', status: 503, at }
    if (tests === undefined) {
      this.#ledger.judge(
        at,
        notHere(
          'its rule has no counterpart; its hosts answer 503 for what routers with a higher priority do not take',
          'write an expression'
        )
      )
      return { at, verdict: EXACT, label, tests: all([]), actions: [closed] }
    }
    this.#ledger.judge(at, EXACT)
    const upstream = this.#service(bare(textOf(fields.service) ?? ''), at)
    if (upstream === undefined) return { at, verdict: EXACT, label, tests: all(tests), actions: [...actions, closed] }
    return { at, verdict: EXACT, label, tests: all(tests), actions, target: { kind: 'upstream', upstream } }
  }

  #tests(rest: readonly Rule[]): readonly RouteTest[] | undefined {
    const [only, ...others] = rest
    if (only?.kind === 'matcher' && others.length === 0) return matcherTests(only)
    const parts = rest.map((rule): RouteTest | undefined => {
      const cel = ruleCel(rule)
      return cel === undefined ? undefined : { kind: 'expression', cel }
    })
    return parts.includes(undefined) ? undefined : (parts as RouteTest[])
  }

  /** Actions of a middleware by name; one that is not known answers 503. `depth`: of chains in chains. */
  #actions(name: string, router: SourcePosition, depth: number): RouteAction[] {
    const named = this.#middlewares.get(name)
    if (named === undefined || depth > 20) {
      this.#ledger.judge(
        router,
        notHere(`the middleware ${celText(name)} is not in these files; the router answers 503`, 'name the file, too')
      )
      return [{ kind: 'respond', status: 503, at: router }]
    }
    return Object.entries(named.fields).flatMap(([kind, value]) => {
      if (kind === 'chain') {
        this.#ledger.judge(named.at, EXACT)
        return textsOf(fieldsOf(value).middlewares).flatMap((inner) => this.#actions(bare(inner), named.at, depth + 1))
      }
      const { actions, verdict } = readMiddleware(kind, lowered(fieldsOf(value)), named.at)
      this.#ledger.judge(named.at, verdict)
      // Limits of several middlewares have names of their own.
      return actions.map((action) => (action.kind === 'rate-limit' ? { ...action, name } : action))
    })
  }

  #service(name: string, router: SourcePosition): string | undefined {
    const named = this.#services.get(name)
    const balancer = lowered(fieldsOf(named?.fields.loadbalancer))
    const servers = (Array.isArray(balancer.servers) ? balancer.servers : []).flatMap((server) => {
      const { url, weight } = fieldsOf(server)
      const address = textOf(url)
      return address === undefined
        ? []
        : [
            {
              url: withPort(address),
              ...(numberOf(weight) === undefined ? {} : { weight: numberOf(weight) as number })
            }
          ]
    })
    if (named === undefined || servers.length === 0) {
      const reason =
        named === undefined ? `the service ${celText(name)} is not in these files` : 'it has no list of servers'
      this.#ledger.judge(named?.at ?? router, notHere(`${reason}; its routers answer 503`, 'write a backend'))
      return undefined
    }
    const cookie = fieldsOf(lowered(fieldsOf(balancer.sticky)).cookie)
    const healthPath = textOf(fieldsOf(balancer.healthcheck).path)
    const isSticky = Object.keys(fieldsOf(balancer.sticky)).length > 0
    const others = Object.keys(balancer).filter(
      (key) => !['servers', 'server', 'sticky', 'healthcheck', 'passhostheader'].includes(key)
    )
    const differences = [
      ...others.map((key) => `${key} is not converted`),
      ...(isSticky ? ['the cookie is sealed by Sluice'] : []),
      ...(String(balancer.passhostheader) === 'false' ? ['the upstream gets the host that the client asked for'] : [])
    ]
    this.#ledger.judge(named.at, differences.length === 0 ? EXACT : close(differences.join('; ')))
    return this.#upstreams.add(
      {
        servers,
        ...(healthPath === undefined ? {} : { healthPath }),
        ...(isSticky ? { stickyCookie: textOf(cookie.name) ?? 'lb' } : {})
      },
      named.at,
      servers.length > 1 || healthPath !== undefined || isSticky ? name : undefined
    )
  }
}

/** A URL with a port and without a path. */
function withPort(url: string): string {
  const [, scheme = 'http', authority = ''] = /^(\w+):\/\/([^/]*)/.exec(url) ?? []
  return `${scheme}://${/:\d+$/.test(authority) ? authority : `${authority}:${scheme === 'https' ? 443 : 80}`}`
}
