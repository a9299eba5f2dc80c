import type { ImportedRoute, RouteTest } from './model.js'

/** Routes without those whose requests an earlier route takes completely: a site file would choose the longer path. */
export function withoutShadowed(routes: readonly ImportedRoute[]): {
  readonly routes: readonly ImportedRoute[]
  readonly shadowed: readonly ImportedRoute[]
} {
  const kept: ImportedRoute[] = []
  const shadowed: ImportedRoute[] = []
  for (const route of routes) {
    const isShadowed = kept.some(
      (earlier) =>
        (earlier.unless ?? []).length === 0 &&
        earlier.actions.every((action) => earlier.target !== undefined || action.when === undefined) &&
        earlier.tests.every((test) => route.tests.some((other) => implies(other, test)) || isAll(test))
    )
    if (isShadowed) shadowed.push(route)
    else kept.push(route)
  }
  return { routes: withBarePaths(kept), shadowed }
}

/**
 * Routes of a site file for `/api/` also take `/api`, which the source has for another route: that one gets a route for the path
 * itself. Routes that answer are rules of the policy, which compare exactly.
 */
function withBarePaths(routes: readonly ImportedRoute[]): ImportedRoute[] {
  return routes.flatMap((route) => {
    const [test, ...others] = route.tests
    if (
      test?.kind !== 'path-prefix' ||
      others.length > 0 ||
      !/^\/.*[^/]\/$/.test(test.path) ||
      route.target === undefined
    )
      return [route]
    const bare: RouteTest = { kind: 'path-exact', path: test.path.slice(0, -1) }
    const other = routes.find(({ tests }) => tests.every((one) => implies(bare, one) || isAll(one)))
    return other?.target === undefined ? [route] : [{ ...other, tests: [bare] }, route]
  })
}

const isAll = (test: RouteTest) => test.kind === 'path-prefix' && (test.path === '/' || test.path === '')

/** Is each request that meets `narrow` one that meets `wide`? False where it is not known. */
function implies(narrow: RouteTest, wide: RouteTest): boolean {
  if (JSON.stringify(narrow) === JSON.stringify(wide)) return true
  if (wide.kind !== 'path-prefix' || !('path' in narrow)) return false
  if (wide.border === 'text') return narrow.path.startsWith(wide.path)
  const bare = wide.path.replace(/\/$/, '')
  return narrow.path === bare || narrow.path.startsWith(`${bare}/`)
}
