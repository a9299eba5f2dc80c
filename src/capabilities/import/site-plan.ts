import { celOfTest, negated, pathIn } from './cel.js'
import {
  close,
  type ImportedHost,
  type ImportedRoute,
  type RouteAction,
  type RouteTest,
  type SourcePosition,
  type Verdict
} from './model.js'
import {
  actionKey,
  forwardRule,
  isAnswer,
  isResponseAction,
  type Policy,
  type PolicyRule,
  policyOf,
  requestRules,
  responseRules
} from './policy.js'

/** A route of a site file. */
interface PlannedRoute {
  readonly path: string
  readonly route: ImportedRoute
  readonly policy?: Policy
  readonly compresses: boolean
}

/** A site that rules lead to by `forward-internal`. */
interface InternalSite {
  readonly host: string
  readonly route: ImportedRoute
  readonly policy?: Policy
  readonly compresses: boolean
}

/** A host of the model in the terms of site files. */
export interface PlannedSite {
  readonly policy?: Policy
  /** All routes are compressed. */
  readonly compresses: boolean
  readonly routes: readonly PlannedRoute[]
  /** Policy of a route for all paths that no other one takes. */
  readonly rest?: Policy
  readonly internal: readonly InternalSite[]
  /** Differences that follow from the form of routes. */
  readonly verdicts: readonly { readonly at: SourcePosition; readonly verdict: Verdict }[]
}

const NOT_FOUND: PolicyRule = { actions: [{ type: 'deny', config: { status_code: 404 } }] }

interface Placed {
  readonly route: ImportedRoute
  /** Path of the route of the site file; undefined: a rule of the site's policy chooses it. */
  readonly path: string | undefined
}

/**
 * Plans a site: routes where the routes of a site file choose as the source does, and rules of the site's policy in the order of the
 * source for all others. A rule leads to an internal site if an upstream or a folder serves the request.
 */
export function planSite(host: ImportedHost, freeHost: (wanted: string) => string): PlannedSite {
  const verdicts: { at: SourcePosition; verdict: Verdict }[] = []
  const placed = place(host.routes, verdicts)
  const served = placed.filter(({ route }) => route.target !== undefined)
  const response = commonPrefix(
    placed
      .map(({ route }) =>
        route.target === undefined ? headersOfAnswers(route) : route.actions.filter(isResponseAction)
      )
      .filter(
        (actions, index) =>
          actions.length > 0 || placed[index]?.route.target !== undefined || answersUsually(placed[index]?.route)
      )
      .map((actions) => actions.map(actionKey))
  )
  const answersAfterForwards = placed.some(
    ({ route, path }, index) =>
      path === undefined &&
      route.target !== undefined &&
      placed.slice(index).some((later) => later.path === undefined && later.route.target === undefined)
  )
  // Fields for upstreams mean nothing to files, so that routes with files need not have them.
  const proxied = served.filter(({ route }) => route.target?.kind === 'upstream' || beforeRoute(route).length > 0)
  const common = commonPrefix(proxied.map(({ route }) => beforeRoute(route).map(actionKey)))
  const fields = (proxied[0] === undefined ? [] : beforeRoute(proxied[0].route)).findIndex(
    ({ kind }) => kind !== 'request-header'
  )
  const harmless = proxied.length === served.length || fields === -1 ? common : Math.min(common, fields)
  const request = answersAfterForwards ? 0 : harmless
  const compresses =
    served.length > 0 && served.every(({ route }) => route.actions.some(({ kind }) => kind === 'compress'))
  const internal: InternalSite[] = []
  const variables = host.actions.filter(({ kind }) => kind === 'variable')
  const rules: PolicyRule[] = []
  const responses: PolicyRule[] = []
  for (const [index, { route, path }] of placed.entries()) {
    if (path !== undefined) continue
    const expressions = conditions(route, placed.slice(0, index))
    const own = ownRules(route, request, response, variables)
    if (route.target === undefined) {
      rules.push(
        ...requestRules(
          route.actions.filter((action) => !isResponseAction(action)),
          expressions
        ).map((rule) => ({ name: route.label, ...rule }))
      )
      responses.push(...responseRules(headersOfAnswers(route).slice(response), expressions))
      continue
    }
    const name = route.target.kind === 'upstream' ? route.target.upstream : 'files'
    const target = freeHost(
      `${name}.${(host.names[0] ?? 'default')
        .replace(/^\*\.?/, 'any.')
        .replace(/[^\w]+/g, '-')
        .replace(/^-|-$/g, '')}.internal`
    )
    internal.push({ host: target, route, ...own })
    rules.push(forwardRule(route.label, expressions, target))
  }
  // What all served routes do first runs behind the answers, which nothing that is served comes before.
  const forward = rules.findIndex(({ actions }) => actions.at(-1)?.type === 'forward-internal')
  const answers = forward === -1 ? rules.length : forward
  const first = proxied[0]?.route
  const shared = first === undefined ? [] : beforeRoute(first).slice(0, request)
  const sharedResponse =
    placed
      .find(({ route }) => route.actions.filter(isResponseAction).length >= response && route.target !== undefined)
      ?.route.actions.filter(isResponseAction)
      .slice(0, response) ?? []
  // A field that all answers of the site have needs no rule for those of the host.
  const hoisted = new Set(sharedResponse.map(actionKey))
  const ofHost = host.actions.filter(
    (action) => isResponseAction(action) && !hoisted.has(actionKey(withoutCondition(action)))
  )
  // Policies run on routes alone, so that every path needs one; what no route of the source takes is not found.
  const hasAll =
    placed.some(({ path }) => path === '/') ||
    rules.some(({ expressions = [] }) => expressions.length === 0) ||
    host.actions.some((action) => isAnswer(action) && action.when === undefined)
  const hasRoutes = placed.some(({ path }) => path !== undefined)
  const policy = policyOf(
    [
      ...requestRules(host.actions.filter((action) => !isResponseAction(action) && action.kind !== 'variable')),
      ...joinAnswers(rules.slice(0, answers)),
      ...requestRules(shared),
      ...joinAnswers(rules.slice(answers)),
      ...(hasAll || hasRoutes ? [] : [NOT_FOUND])
    ],
    [...responseRules([...ofHost, ...sharedResponse]), ...joinAnswers(responses)],
    variables
  )
  const routes = placed.flatMap(({ route, path }): PlannedRoute[] =>
    path === undefined ? [] : [{ path, route, ...ownRules(route, request, response, variables) }]
  )
  const rest = !hasAll && hasRoutes && policy !== undefined ? { rest: { on_http_request: [NOT_FOUND] } } : {}
  return { ...(policy === undefined ? {} : { policy }), ...rest, compresses, routes, internal, verdicts }
}

const withoutCondition = ({ when: _when, ...action }: RouteAction) => action as RouteAction

/** Header fields that an answer of the route can have. */
function headersOfAnswers({ actions }: ImportedRoute): RouteAction[] {
  const statuses = actions.flatMap((action) =>
    action.kind === 'respond' || action.kind === 'redirect' ? [action.status] : []
  )
  return actions.filter(
    (action) =>
      action.kind === 'response-header' &&
      (action.statuses?.some((status) => statuses.includes(status)) ?? statuses.length > 0)
  )
}

/** Can the route answer with a status that header fields are usually for? */
const answersUsually = (route: ImportedRoute | undefined) =>
  route?.actions.some((action) => (action.kind === 'respond' || action.kind === 'redirect') && action.status < 400) ===
  true

/** Actions on the request that could also run before the route is chosen: not those that change the path. */
function beforeRoute({ actions }: ImportedRoute) {
  const all = actions.filter((action) => !isResponseAction(action) && action.kind !== 'compress')
  const end = all.findIndex(({ kind }) => kind === 'rewrite')
  return end === -1 ? all : all.slice(0, end)
}

function ownRules(route: ImportedRoute, request: number, response: number, variables: readonly RouteAction[]) {
  const all = route.actions.filter((action) => !isResponseAction(action) && action.kind !== 'compress')
  const policy = policyOf(
    requestRules(route.target === undefined ? all : all.slice(request)),
    responseRules(route.actions.filter(isResponseAction).slice(response)),
    variables
  )
  return {
    ...(policy === undefined ? {} : { policy }),
    compresses: route.actions.some(({ kind }) => kind === 'compress')
  }
}

/** Number of items that all lists begin with. */
function commonPrefix(lists: readonly (readonly string[])[]): number {
  const [first = [], ...others] = lists
  const end = first.findIndex((item, index) => others.some((other) => other[index] !== item))
  return end === -1 ? first.length : end
}

/** Paths of routes, for those that routes of a site file can choose. */
function place(routes: readonly ImportedRoute[], verdicts: { at: SourcePosition; verdict: Verdict }[]): Placed[] {
  const paths = new Set<string>()
  const placed: Placed[] = []
  for (const route of routes) {
    const path = pathOfRoute(route, placed)
    if (path !== undefined && paths.has(path)) continue
    if (path !== undefined) paths.add(path)
    const [test] = route.tests
    if (
      path !== undefined &&
      test?.kind === 'path-prefix' &&
      test.border === 'text' &&
      path !== '/' &&
      !test.path.endsWith('/')
    ) {
      verdicts.push({
        at: route.at,
        verdict: close(`it takes ${test.path} and what is below ${test.path}/, but not ${test.path}x`)
      })
    }
    placed.push({ route, path })
  }
  return placed
}

function pathOfRoute({ tests, unless = [], target }: ImportedRoute, earlier: readonly Placed[]): string | undefined {
  const [test, ...others] = tests
  if (target === undefined || test === undefined || others.length > 0) return undefined
  // Longer prefixes are chosen before this one anyway.
  const longer = unless.every((one) => one.kind === 'path-prefix' && earlierOrLater(one, test))
  if (!longer || !('path' in test) || test.path.includes('*') || !test.path.startsWith('/')) return undefined
  if (test.kind === 'path-exact') return test.path.endsWith('/') ? undefined : test.path
  if (test.path.endsWith('/')) return test.path
  return earlier.some(({ path }) => path === `${test.path}/`) ? test.path : `${test.path}/`
}

const earlierOrLater = (one: RouteTest, test: RouteTest) =>
  'path' in one && 'path' in test && one.path.startsWith(test.path)

/** Expressions that are true if the route is chosen: its tests, and none of the routes of the site file that come before it. */
function conditions(route: ImportedRoute, before: readonly Placed[]): string[] {
  const tests = route.tests.map(celOfTest).filter((cel) => cel !== 'true')
  const paths = new Set<string>()
  const guards: string[] = []
  for (const { route: other, path } of before) {
    if (path === undefined || !overlap(other, route)) continue
    const [test] = other.tests
    const unless = (other.unless ?? []).map(celOfTest)
    if (test?.kind === 'path-exact') paths.add(test.path)
    else if (test !== undefined)
      guards.push(
        unless.length === 0 ? negated(celOfTest(test)) : negated([celOfTest(test), ...unless.map(negated)].join(' && '))
      )
  }
  const exact = paths.size === 0 ? [] : [negated(pathIn([...paths]))]
  return [...tests, ...exact, ...guards, ...(route.unless ?? []).map((test) => negated(celOfTest(test)))]
}

/** False if no request can meet the tests of both. */
function overlap({ tests: [one] }: ImportedRoute, { tests }: ImportedRoute): boolean {
  return tests.every((other) => {
    if (one === undefined || !('path' in one) || !('path' in other)) return true
    if (other.kind === 'path-exact')
      return one.kind === 'path-exact' ? one.path === other.path : other.path.startsWith(one.path)
    return one.kind === 'path-exact'
      ? one.path.startsWith(other.path)
      : one.path.startsWith(other.path) || other.path.startsWith(one.path)
  })
}

/** Joins neighbours with the same actions that are for one path each. */
function joinAnswers(rules: readonly PolicyRule[]): PolicyRule[] {
  const joined: { rule: PolicyRule; paths: string[] | undefined; key: string }[] = []
  for (const rule of rules) {
    const [first = '', ...others] = rule.expressions ?? []
    const path = /^req\.url\.path == '([^'\\]*)'$/.exec(first)?.[1]
    const key = JSON.stringify([others, rule.actions])
    const last = joined.at(-1)
    if (path !== undefined && last?.paths !== undefined && last.key === key) last.paths.push(path)
    else joined.push({ rule, paths: path === undefined ? undefined : [path], key })
  }
  return joined.map(({ rule, paths }) =>
    paths === undefined ? rule : { ...rule, expressions: [pathIn(paths), ...(rule.expressions?.slice(1) ?? [])] }
  )
}
