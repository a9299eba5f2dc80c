import {
  close,
  EXACT,
  type FileTarget,
  type ImportedRoute,
  notHere,
  type RouteAction,
  type RouteTest,
  type SourcePosition,
  type Verdict
} from '../model.js'
import type { Ledger } from '../report.js'
import { conditionOf, escapeRegex } from '../requests-in-cel.js'
import type { UpstreamSet } from '../upstream-set.js'
import {
  type Converted,
  readBasicAuth,
  readRedirect,
  readRequestHeader,
  readRespond,
  readResponseHeader,
  readRewrite,
  readUri,
  stripAction
} from './answers.js'
import { matcherTests, type NamedMatchers } from './matchers.js'
import { CLOSING, doesProtect, isServing, matchersOf, ORDER, sorted, splitMatcher } from './order.js'
import { readProxy } from './proxy.js'
import { type CaddyDirective, caddyText } from './syntax.js'

/** Maximum number of routes of a site; real files have fewer than a hundred. */
const MAX_ROUTES = 2000

/** Verdict of `handle_errors`; errors keep their status and get the page of Sluice. */
export const ERRORS = close('errors keep their status, with the page of Sluice: write error_pages of the site')

/** Settings read on the way to a directive. */
interface Context {
  readonly tests: readonly RouteTest[]
  readonly actions: readonly RouteAction[]
  readonly named: NamedMatchers
  readonly prefix: string
  readonly root?: string
  readonly fallback?: string
  readonly rewritten: boolean
  readonly at: SourcePosition
  readonly label: string
}

/** Converts the directives of a site to routes, in the order in which Caddy runs them. */
export class SiteWalk {
  readonly #ledger: Ledger
  readonly #upstreams: UpstreamSet
  readonly routes: ImportedRoute[] = []

  constructor(ledger: Ledger, upstreams: UpstreamSet) {
    this.#ledger = ledger
    this.#upstreams = upstreams
  }

  site(directives: readonly CaddyDirective[], at: SourcePosition): void {
    const named = matchersOf(directives, new Map())
    this.#walk(sorted(directives, named), {
      tests: [],
      actions: [],
      named,
      prefix: '',
      rewritten: false,
      at,
      label: 'site'
    })
  }

  #judge(at: SourcePosition, verdict: Verdict): void {
    this.#ledger.judge(at, verdict)
  }

  #walk(directives: readonly CaddyDirective[], start: Context): void {
    let context = start
    for (const [index, directive] of directives.entries()) {
      if (this.routes.length > MAX_ROUTES) {
        this.#answer(context, directive, [{ kind: 'respond', status: 503, at: directive.at }])
        this.#judge(directive.at, notHere(`the site has more than ${MAX_ROUTES} routes`, 'divide it'))
        return
      }
      const { matcher, rest } = splitMatcher(directive)
      const protects = doesProtect(directive)
      const tests = matcherTests(matcher, { named: context.named, prefix: context.prefix, ignoreCase: protects })
      const seesOldPath = context.rewritten && JSON.stringify(tests ?? []).includes('path')
      if (tests === undefined || (seesOldPath && protects)) {
        this.#judge(
          directive.at,
          notHere(
            `what it matches has no counterpart${isServing(directive) || protects ? '; the route answers 503' : ''}`,
            'write an expression'
          )
        )
        if (!isServing(directive) && !protects) continue
        this.#answer(context, directive, [{ kind: 'respond', status: 503, at: directive.at }])
        return
      }
      if (tests.some((test) => 'path' in test) && !protects)
        this.#judge(directive.at, close('paths are compared with their case'))
      if (seesOldPath) this.#judge(directive.at, close('it is compared with the path that the client asked for'))
      const step = this.#step({ ...rest }, tests, context, directives.slice(index + 1))
      if (step === 'end') return
      context = step
    }
    // Caddy answers 200 with an empty body if no handler answers.
    this.#add(context, [], [{ kind: 'respond', status: 200, at: context.at }])
  }

  /** Converts one directive. Returns `end` if it answers all requests of the context. */
  #step(
    directive: CaddyDirective,
    tests: readonly RouteTest[],
    context: Context,
    later: readonly CaddyDirective[]
  ): Context | 'end' {
    const { name, args, at } = directive
    const end = tests.length === 0 ? ('end' as const) : context
    switch (name) {
      case 'root':
        if (tests.length > 0 || /[{}]/.test(args[0] ?? '{')) {
          this.#judge(at, notHere('the folder depends on the request; files answer 503', 'write a route with files'))
          const { root: _root, ...without } = context
          return without
        }
        this.#judge(at, EXACT)
        return { ...context, root: args[0] as string }
      case 'try_files': {
        const last = args.at(-1) ?? ''
        const isUsual = args.slice(0, -1).every((arg) => arg === '{path}' || arg === '{path}/') && !/[{}?]/.test(last)
        this.#judge(
          at,
          isUsual ? EXACT : notHere('it tries other files; they are not found', 'write fallback of the route')
        )
        return isUsual && tests.length === 0 ? { ...context, fallback: last } : context
      }
      case 'encode':
        this.#judge(
          at,
          close('br, zstd and gzip are offered for all compressible types, and not on requests with cookies')
        )
        return { ...context, actions: [...context.actions, { kind: 'compress', algorithms: [], at }] }
      case 'header':
        return this.#append(context, tests, readResponseHeader(directive), at)
      case 'request_header':
        return this.#append(context, tests, readRequestHeader(directive), at)
      case 'basic_auth':
      case 'basicauth':
        return this.#append(context, tests, readBasicAuth(directive), at)
      case 'request_body':
        return this.#append(context, tests, readBodyLimit(directive), at)
      case 'rewrite':
      case 'uri': {
        const converted = name === 'uri' ? readUri(directive) : readRewrite(directive)
        return { ...this.#append(context, tests, converted, at), rewritten: true }
      }
      case 'redir': {
        const pattern = tests.find((test) => test.kind === 'path-regex')
        const converted = readRedirect(directive, pattern?.kind === 'path-regex' ? pattern.pattern : undefined)
        this.#judge(at, converted.verdict)
        this.#answer(context, directive, converted.actions, tests)
        return end
      }
      case 'respond': {
        const { actions, verdict } = readRespond(directive)
        this.#judge(at, verdict)
        this.#answer(context, directive, actions, tests)
        return end
      }
      case 'abort':
        this.#judge(at, EXACT)
        this.#answer(context, directive, [{ kind: 'close', at }], tests)
        return end
      case 'handle':
      case 'handle_path':
      case 'route':
        this.#block(directive, tests, context, later)
        return end
      case 'reverse_proxy':
        this.#proxy(directive, tests, context)
        return end
      case 'file_server':
        this.#files(directive, tests, context)
        return end
      default:
        return this.#other(directive, tests, context, end)
    }
  }

  #other(
    directive: CaddyDirective,
    tests: readonly RouteTest[],
    context: Context,
    end: Context | 'end'
  ): Context | 'end' {
    const { name, at } = directive
    if (CLOSING.includes(name) || !ORDER.includes(name)) {
      if (['log', 'tls', 'bind', 'import'].includes(name)) return context
      this.#judge(
        at,
        notHere('it has no counterpart; the route answers 503', 'write an action of a policy, or a backend')
      )
      this.#answer(context, directive, [{ kind: 'respond', status: 503, at }], tests)
      return end
    }
    if (name === 'handle_errors') {
      this.#judge(at, ERRORS)
      return context
    }
    const isLog = name.startsWith('log') || name === 'skip_log'
    this.#judge(
      at,
      isLog
        ? close('the access log has all requests; access_log_* of the options says more')
        : notHere('it has no counterpart', 'write set-vars with an expression')
    )
    return context
  }

  #append(context: Context, tests: readonly RouteTest[], { actions, verdict }: Converted, at: SourcePosition): Context {
    this.#judge(at, verdict)
    const when = conditionOf(tests)
    const added = actions.map((action) => {
      const both = [when, action.when].filter((cel) => cel !== undefined).join(' && ')
      return both === '' ? action : { ...action, when: both }
    })
    return { ...context, actions: [...context.actions, ...added] }
  }

  /** The body of a block and, behind it, what follows the block: other blocks of the group are for other requests. */
  #block(
    directive: CaddyDirective,
    tests: readonly RouteTest[],
    context: Context,
    later: readonly CaddyDirective[]
  ): void {
    const {
      name,
      args: [path = ''],
      block = [],
      at
    } = directive
    const named = matchersOf(block, context.named)
    const inner = block.filter((one) => !one.name.startsWith('@'))
    const behind = name === 'route' ? later : later.filter((one) => one.name !== 'handle' && one.name !== 'handle_path')
    const strip = name === 'handle_path' ? path.replace(/\/?\*$/, '') : ''
    this.#judge(at, EXACT)
    this.#walk([...(name === 'route' ? inner : sorted(inner, named)), ...behind], {
      ...context,
      named,
      at,
      label: caddyText(directive).replace(/ \{$/, ''),
      tests: [...context.tests, ...tests],
      prefix: `${context.prefix}${strip}`,
      actions: strip === '' ? context.actions : [...context.actions, stripAction(strip, at)]
    })
  }

  #proxy(directive: CaddyDirective, tests: readonly RouteTest[], context: Context): void {
    const { upstream, timeouts, actions, verdict } = readProxy(directive, this.#ledger)
    this.#judge(directive.at, verdict)
    if (upstream === undefined) {
      this.#answer(context, directive, [{ kind: 'respond', status: 503, at: directive.at }], tests)
      return
    }
    const name = this.#upstreams.add(upstream, directive.at)
    this.#add({ ...context, at: directive.at }, tests, actions, {
      target: { kind: 'upstream', upstream: name },
      ...(timeouts === undefined ? {} : { timeouts })
    })
  }

  #files({ args, block = [], at }: CaddyDirective, tests: readonly RouteTest[], context: Context): void {
    const lines = new Map(block.map((line) => [line.name, line]))
    const folder = lines.get('root')?.args[0] ?? context.root
    const hidden = (lines.get('hide')?.args ?? []).map((pattern) => (/[/{}[\]?]/.test(pattern) ? undefined : pattern))
    const others = [...lines.keys()].filter(
      (name) => !['root', 'hide', 'index', 'browse', 'precompressed', 'disable_canonical_uris'].includes(name)
    )
    if (folder === undefined || /[{}]/.test(folder) || hidden.includes(undefined) || others.length > 0) {
      this.#judge(
        at,
        notHere('its folder, or what it hides, is not known here; the route answers 503', 'write a route with files')
      )
      this.#answer(context, { name: 'file_server', args, block, at }, [{ kind: 'respond', status: 503, at }], tests)
      return
    }
    const index = lines.get('index')?.args
    const listing = args.includes('browse') || lines.has('browse')
    const files: FileTarget = {
      folder,
      ...(index === undefined ? {} : { index }),
      ...(context.fallback === undefined ? {} : { fallback: context.fallback }),
      ...(listing ? { listing } : {})
    }
    this.#judge(at, listing ? close('the list of a folder looks different') : EXACT)
    const hides = hidden.map((pattern): RouteAction => {
      const source = (pattern as string).split('*').map(escapeRegex).join('[^/]*')
      return {
        kind: 'respond',
        status: 404,
        when: `req.url.path.matches('(^|/)${source.replace(/\\/g, '\\\\')}(/|$)')`,
        at
      }
    })
    this.#add({ ...context, at }, tests, hides, { target: { kind: 'files', files } })
  }

  /** Adds a route that answers without an upstream. */
  #answer(
    context: Context,
    directive: CaddyDirective,
    actions: readonly RouteAction[],
    tests: readonly RouteTest[] = []
  ): void {
    this.#add(
      { ...context, at: directive.at, label: caddyText(directive).replace(/ \{$/, '').slice(0, 60) },
      tests,
      actions
    )
  }

  #add(
    context: Context,
    tests: readonly RouteTest[],
    actions: readonly RouteAction[],
    rest: Partial<ImportedRoute> = {}
  ): void {
    const all = [...context.tests, ...tests]
    this.routes.push({
      at: context.at,
      verdict: EXACT,
      label: context.label,
      tests: all.length === 0 ? [{ kind: 'path-prefix', path: '/', border: 'text' }] : all,
      actions: [...context.actions, ...actions],
      ...rest
    })
  }
}

function readBodyLimit({ block = [], at }: CaddyDirective): Converted {
  const [, count, unit = ''] =
    /^(\d+)\s*([kmg]?)i?b?$/i.exec(block.find(({ name }) => name === 'max_size')?.args[0] ?? '') ?? []
  if (count === undefined)
    return {
      actions: [],
      verdict: notHere('its limit is no number of bytes', 'write an expression on req.content_length')
    }
  const base = 1000 ** ['', 'k', 'm', 'g'].indexOf(unit.toLowerCase())
  const when = `has(req.content_length) && req.content_length > ${Number(count) * base}`
  return {
    actions: [{ kind: 'respond', status: 413, when, at }],
    verdict: close('bodies without a length in the head are not limited')
  }
}
