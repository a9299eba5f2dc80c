import { toRe2 } from '../cel.js'
import {
  close,
  EXACT,
  type ImportedRoute,
  notHere,
  type RouteAction,
  type RouteTarget,
  type RouteTest,
  type Verdict
} from '../model.js'
import {
  accessChecks,
  bodyLimit,
  compression,
  contentTypeOf,
  errorPages,
  requestHeaders,
  responseHeaders
} from './answers.js'
import type { Level } from './level.js'
import { convertTests, isRegex, type Location, type LocationEntry, locationsOf, orderLocations } from './locations.js'
import { type Rewrite, readReturn, readRewrite } from './rewrites.js'
import { slashRedirects } from './slash-redirects.js'
import type { Directive } from './syntax.js'
import { type Reading, readTarget } from './targets.js'
import type { Variables } from './variables.js'

/** Routes of a server block, and what it does before a location is chosen. */
export interface ServerRoutes {
  readonly actions: readonly RouteAction[]
  readonly routes: readonly ImportedRoute[]
}

interface Steps {
  readonly actions: RouteAction[]
  readonly rewrites: { readonly rewrite: Rewrite; readonly directive: Directive }[]
  readonly variables: Variables
  /** An answer ends the steps: nothing behind it is reached. */
  readonly ended: boolean
}

const NO_RE2 = notHere('the expression needs look-around or back-references', 'write it in the syntax of RE2')

const isAnswer = ({ kind }: RouteAction) => kind === 'respond' || kind === 'redirect'

/** The verdict of a check that cannot be converted: the whole server answers 503. */
function closing(verdict: typeof NO_RE2): Verdict {
  return verdict.kind === 'not-here'
    ? notHere(
        `${verdict.reason}, and the location refuses requests`,
        `${verdict.instead}; the site answers 503 until then`
      )
    : verdict
}

/** Reads the locations of one server block. */
export class ServerReader {
  readonly #level: Level
  readonly #reading: Reading

  constructor(level: Level, reading: Reading) {
    this.#level = level
    this.#reading = reading
  }

  read(): ServerRoutes {
    const level = this.#level
    const steps = this.#steps(level, this.#reading.variables, undefined)
    const common = [...accessChecks(level, steps.variables, this.#reading.zones)]
    if (steps.ended)
      return { actions: [...steps.actions, ...responseHeaders(level, steps.variables, true)], routes: [] }
    const limit = this.#bodyLimitOfAll(level)
    const tree = locationsOf(level.directives)
    const entries = orderLocations(tree)
    const routes = entries.flatMap((entry) => this.#route(entry, steps.variables))
    const redirects = slashRedirects(tree, entries, routes)
    const firstOther = routes.findIndex(({ tests: [test] }) => test?.kind !== 'path-exact')
    routes.splice(firstOther === -1 ? routes.length : firstOther, 0, ...redirects)
    const rest = this.#withoutLocation(entries, level, steps.variables)
    const all = rest === undefined ? routes : [...routes, rest]
    const rewritten = steps.rewrites.flatMap((one) => this.#rewritten(one, all))
    if (entries.length === 0 && rest === undefined && common.length > 0)
      return { actions: [...limit, ...steps.actions, ...common], routes: rewritten }
    const headers = responseHeaders(level, steps.variables, false)
    const ofAnswers = steps.actions
      .filter(isAnswer)
      .flatMap(({ when }) => headers.map((header) => ({ ...header, ...(when === undefined ? {} : { when }) })))
    const closed = this.#unread.map(({ at }): RouteAction => ({ kind: 'respond', status: 503, at }))
    return { actions: [...closed, ...limit, ...steps.actions, ...ofAnswers], routes: [...rewritten, ...all] }
  }

  #limitedByLocation = false
  /** Locations that refuse requests by an expression that cannot be said: without them the server would be open. */
  readonly #unread: Directive[] = []

  /** The limit of bodies of the whole server, unless a location has one of its own. */
  #bodyLimitOfAll(level: Level): RouteAction[] {
    const text = JSON.stringify(level.directives.flatMap(({ name, block }) => (name === 'location' ? [block] : [])))
    this.#limitedByLocation = text.includes('"client_max_body_size"')
    return this.#limitedByLocation ? [] : bodyLimit(level)
  }

  /** Files that a server with a folder serves for paths without a location. */
  #withoutLocation(entries: readonly LocationEntry[], level: Level, variables: Variables): ImportedRoute | undefined {
    const root = level.one('root')
    if (
      root === undefined ||
      entries.some(({ location: { modifier, path } }) => path === '/' && !modifier.startsWith('='))
    )
      return undefined
    const target = readTarget(level, variables, this.#reading, { path: '/', isRegex: false })
    return this.#finished(level, variables, {
      at: root.at,
      label: 'files of the server',
      tests: [{ kind: 'path-prefix', path: '/', border: 'text' }],
      unless: [],
      before: [],
      target
    })
  }

  #route({ location, tests, unless }: LocationEntry, outer: Variables): ImportedRoute[] {
    const { directive } = location
    const level = this.#levelOf(location)
    const converted = convertTests(tests)
    if (converted === undefined) {
      const protects = /"(?:deny|auth_basic|auth_request|internal)"|"return","args":\["4/.test(
        JSON.stringify(directive.block)
      )
      if (protects) this.#unread.push(directive)
      level.judge(directive, protects ? closing(NO_RE2) : NO_RE2)
      return []
    }
    level.judge(
      directive,
      converted.except.length === 0
        ? EXACT
        : close('a path with both what is matched and what is excluded is not taken')
    )
    const label = `location ${directive.args.join(' ')}`
    const base = { at: directive.at, label, tests: converted.tests, unless: [...unless, ...converted.except] }
    if (level.own('internal').length > 0) {
      for (const one of level.own('internal')) level.judge(one, EXACT)
      return [{ ...base, verdict: EXACT, actions: [{ kind: 'respond', status: 404, at: directive.at }] }]
    }
    const steps = this.#steps(level, outer, isRegex(location) ? toRe2(location.path) : undefined)
    if (steps.ended) {
      const headers = responseHeaders(level, steps.variables, true)
      return [{ ...base, verdict: EXACT, actions: [...steps.actions, ...headers] }]
    }
    const place = {
      path: location.modifier === '=' || !isRegex(location) ? location.path : '/',
      isRegex: isRegex(location)
    }
    const target = readTarget(level, steps.variables, this.#reading, place)
    const inPlace = steps.rewrites.filter(
      ({ rewrite }) => rewrite.searchesAgain !== true || leadsHere(rewrite, location)
    )
    const elsewhere = steps.rewrites.filter((one) => !inPlace.includes(one))
    for (const { directive: one } of elsewhere) {
      level.judge(
        one,
        notHere('the new path chooses a location again', 'write a rule with url-rewrite and forward-internal')
      )
    }
    const rewrites = inPlace.flatMap(({ rewrite: { action } }) => (action === undefined ? [] : [action]))
    const before = [...steps.actions, ...rewrites]
    const route = this.#finished(level, steps.variables, { ...base, before, target })
    return [route]
  }

  #finished(
    level: Level,
    variables: Variables,
    {
      before,
      target,
      at,
      label,
      tests,
      unless
    }: {
      readonly at: ImportedRoute['at']
      readonly label: string
      readonly tests: readonly RouteTest[]
      readonly unless: readonly RouteTest[]
      readonly before: readonly RouteAction[]
      readonly target: ReturnType<typeof readTarget>
    }
  ): ImportedRoute {
    const hasUpstream = target.target?.kind === 'upstream'
    const actions = [
      ...(this.#limitedByLocation ? bodyLimit(level) : []),
      ...before,
      ...accessChecks(level, variables, this.#reading.zones),
      ...(hasUpstream ? requestHeaders(level, variables, level.own('grpc_pass').length > 0 ? 'grpc' : 'proxy') : []),
      ...target.actions,
      ...responseHeaders(level, variables, false),
      ...compression(level)
    ]
    const { timeouts } = target
    errorPages(level)
    return {
      at,
      label,
      tests,
      ...(unless.length > 0 ? { unless } : {}),
      verdict: EXACT,
      actions,
      ...(target.target === undefined ? {} : { target: target.target as RouteTarget }),
      ...(timeouts === undefined ? {} : { timeouts })
    }
  }

  readonly #levels = new Map<Directive, Level>()

  /** The level of a location below those of the locations around it. */
  #levelOf(location: Location): Level {
    if (this.#levels.size === 0) this.#enter(locationsOf(this.#level.directives), this.#level)
    return this.#levels.get(location.directive) as Level
  }

  #enter(locations: readonly Location[], outer: Level): void {
    for (const location of locations) {
      const { directive } = location
      const locationPattern = isRegex(location) ? toRe2(location.path) : undefined
      const level = outer.inner({
        directives: directive.block ?? [],
        at: directive.at,
        locationPattern,
        isWholePath: location.modifier === '=' && !location.path.includes('.')
      })
      this.#levels.set(directive, level)
      this.#enter(locationsOf(directive.block ?? []), level)
    }
  }

  /** `set`, `if`, `return` and `rewrite` of a block, in the order of the source. */
  #steps(level: Level, outer: Variables, groups: string | undefined): Steps {
    const actions: RouteAction[] = []
    const rewrites: Steps['rewrites'] = []
    let variables = outer
    for (const directive of level.directives) {
      if (directive.name === 'set') variables = this.#set(level, directive, variables)
      else if (directive.name === 'if') actions.push(...this.#if(level, directive, variables))
      else if (directive.name === 'return') {
        const { action, verdict } = readReturn(directive, variables, contentTypeOf(level), groups)
        level.judge(directive, verdict)
        // An answer that cannot be converted must not let the request pass.
        actions.push(action ?? { kind: 'respond', status: 503, at: directive.at })
        return { actions, rewrites, variables, ended: true }
      } else if (directive.name === 'rewrite') {
        const rewrite = readRewrite(directive, variables)
        level.judge(directive, rewrite.verdict)
        if (rewrite.action?.kind === 'redirect') actions.push(rewrite.action)
        else if (rewrite.action !== undefined) rewrites.push({ rewrite, directive })
      } else if (directive.name === 'break') level.judge(directive, EXACT)
    }
    return { actions, rewrites, variables, ended: false }
  }

  #set(level: Level, directive: Directive, variables: Variables): Variables {
    const [name = '', value = ''] = directive.args
    const text = variables.constant(value)
    const cel = text === undefined ? variables.cel(value) : undefined
    level.judge(
      directive,
      text === undefined && cel === undefined
        ? notHere('its value uses a variable that Sluice does not have', 'use set-vars')
        : EXACT
    )
    if (text !== undefined) return variables.with(name.slice(1), { text })
    return cel === undefined
      ? variables
      : variables.with(name.slice(1), { cel: cel.includes(' + ') ? `(${cel})` : cel })
  }

  /** `if` with nothing but `return`, a redirecting `rewrite` or `set` of nothing that is used: the forms that work as they read. */
  #if(level: Level, directive: Directive, variables: Variables): RouteAction[] {
    const when = variables.condition(directive.args)
    const block = directive.block ?? []
    const inside = level.inner({ directives: block, at: directive.at })
    const groups = /^\$(?:request_)?uri$/.test(directive.args[0]?.slice(1) ?? '')
      ? toRe2((directive.args.at(-1) ?? '').replace(/\)$/, ''))
      : undefined
    const actions: RouteAction[] = []
    const fields: Directive[] = []
    let refused =
      when === undefined ? 'its condition is about files, or uses a variable that Sluice does not have' : undefined
    for (const one of block) {
      if (one.name === 'return') {
        const { action, verdict } = readReturn(one, variables, contentTypeOf(inside), groups)
        inside.judge(one, verdict)
        if (action !== undefined && when !== undefined) actions.push({ ...action, when })
        else refused ??= 'what it does cannot be converted'
      } else if (one.name === 'rewrite') {
        const { action, verdict } = readRewrite(one, variables)
        inside.judge(one, verdict)
        if (action?.kind === 'redirect' && when !== undefined) actions.push({ ...action, when })
        else if (action?.kind === 'rewrite' && when !== undefined) actions.push({ ...action, when })
        else refused ??= 'what it does cannot be converted'
      } else if (one.name === 'access_log' || one.name === 'break')
        inside.judge(one, close('the access log is an option of the process'))
      else if (one.name === 'add_header' && block.some(({ name }) => name === 'return')) fields.push(one)
      else refused ??= `"${one.name}" inside "if" changes a part of the location`
    }
    if (refused === undefined) {
      level.judge(directive, EXACT)
      if (fields.length === 0) return actions
      // The fields belong to the answer of the block; those of the location stay, which nginx leaves out here.
      const added = responseHeaders(inside, variables, false).filter(({ at }) => fields.some((one) => one.at === at))
      for (const one of fields) inside.judge(one, close('fields of the blocks around are in the answer, too'))
      return [...added.map((action) => ({ ...action, ...(when === undefined ? {} : { when }) })), ...actions]
    }
    const closes = block.some(
      ({ name, args: [code = ''] }) => (name === 'return' && /^4/.test(code)) || name === 'deny'
    )
    const instead = closes
      ? 'write a rule with its condition; until then the route answers 503'
      : 'write a rule with its condition and actions'
    level.judge(directive, notHere(refused, instead))
    for (const one of block) inside.judge(one, notHere('it stands in an "if" that is not converted', instead))
    return closes ? [{ kind: 'respond', status: 503, at: directive.at }] : []
  }

  /** A `rewrite` of the server block as a route: the pattern chooses it, and it does what the location of the new path does. */
  #rewritten({ rewrite, directive }: Steps['rewrites'][number], routes: readonly ImportedRoute[]): ImportedRoute[] {
    const { pattern, leadsTo = '', action } = rewrite
    const target = routes.find(({ tests }) => tests.every((test) => literalTest(test, leadsTo)))
    if (pattern === undefined || action === undefined || target === undefined) {
      this.#level.judge(
        directive,
        notHere('the location of its new path is not known', 'write a rule with url-rewrite and forward-internal')
      )
      return []
    }
    if (routes.some(({ tests }) => tests.some(({ kind }) => kind === 'path-regex'))) {
      this.#level.judge(directive, close('expressions of locations are not compared with the new path'))
    }
    const test: RouteTest = { kind: 'path-regex', pattern, ignoreCase: false }
    return [
      {
        ...target,
        at: directive.at,
        label: `rewrite ${directive.args[0]}`,
        tests: [test],
        unless: [],
        actions: [action, ...target.actions]
      }
    ]
  }
}

/** Is the test true of every path that begins with `text`? */
function literalTest(test: RouteTest, text: string): boolean {
  if (test.kind === 'path-prefix') return text.startsWith(test.path)
  return test.kind === 'path-exact' && test.path === text
}

/** A `rewrite … last` that leads to its own location works as `break` does. */
function leadsHere({ leadsTo = '' }: Rewrite, { modifier, path }: Location): boolean {
  return (modifier === '' || modifier === '^~') && leadsTo.startsWith(path)
}
