import { EXACT, type ImportedRoute, type RouteAction } from '../model.js'
import { isRegex, type Location, type LocationEntry } from './locations.js'
import type { Directive } from './syntax.js'

/**
 * nginx redirects `/a` to `/a/` where a location `/a/` hands requests to an upstream and no location beside it has the path `/a`
 * (ngx_http_core_find_static_location).
 */
export function slashRedirects(
  tree: readonly Location[],
  entries: readonly LocationEntry[],
  routes: readonly ImportedRoute[]
): ImportedRoute[] {
  const levels = levelsOf(tree)
  return entries.flatMap(({ location }) => {
    const { path } = location
    const bare = path.slice(0, -1)
    const route = routes.find(({ at }) => at === location.directive.at)
    if (isRegex(location) || !path.endsWith('/') || bare === '' || levels.get(location.directive)?.has(bare) === true)
      return []
    if (route?.target?.kind !== 'upstream') return []
    const { at } = location.directive
    const to = '$0/'
    const redirect: RouteAction = { kind: 'redirect', status: 301, pattern: '^/[^?]*', to, at }
    return [
      {
        at,
        label: 'redirect to the path with a slash',
        tests: [{ kind: 'path-exact', path: bare }],
        verdict: EXACT,
        actions: [redirect, ...route.actions.filter(({ kind }) => kind === 'response-header')]
      }
    ]
  })
}

/** Paths of the locations in the same block as each location. */
function levelsOf(tree: readonly Location[]): Map<Directive, ReadonlySet<string>> {
  const paths = new Set(tree.filter((location) => !isRegex(location)).map(({ path }) => path))
  return new Map(tree.flatMap(({ directive, children }) => [[directive, paths] as const, ...levelsOf(children)]))
}
