import { type Fields, fieldsOf, textOf, textsOf } from '../values.js'
import { handlerLines } from './adapted-handlers.js'
import { type AdaptedTree, type JsonPath, toList } from './adapted-tree.js'
import type { CaddyDirective } from './syntax.js'

/** A route of JSON with its place. */
export interface PlacedRoute {
  readonly route: Fields
  readonly path: JsonPath
}

/** Placeholder of the file that the matcher `file` has found. */
const FOUND_FILE = '{http.matchers.file.relative}'

/** Returns routes of JSON as the lines of a `route` block, which run in their order. */
export function routesToDirectives(routes: readonly PlacedRoute[], tree: AdaptedTree): CaddyDirective[] {
  const lines: CaddyDirective[] = []
  /** Matchers of earlier routes by group; only the first matching route of a group runs. */
  const groups = new Map<string, CaddyDirective[]>()
  for (const { route, path } of routes) {
    const tried = triedFiles(route)
    if (tried !== undefined) {
      lines.push(tree.line([...path, 'handle'], 'try_files', tried))
      continue
    }
    const own = toConditions(toList(route.match).map(fieldsOf), { tree, path: [...path, 'match'] })
    const group = textOf(route.group)
    const handlers = toList(route.handle).map(fieldsOf)
    const isBlock = handlers.length === 1 && handlers[0]?.handler === 'subroute'
    let conditions = own
    if (group !== undefined && !isBlock) {
      const earlier = groups.get(group) ?? []
      conditions = [...own, ...earlier]
      groups.set(group, [...earlier, tree.line([...path, 'match'], 'not', [], own)])
    }
    const { token, definition } = toMatcher(conditions, { tree, path, isExact: conditions === own })
    const matcher = token === undefined ? [] : [token]
    lines.push(...definition)
    const inside = handlers.flatMap((handler, index) => {
      const at = [...path, 'handle', index]
      return handler.handler === 'subroute'
        ? [subroute(handler, { tree, path: at, matcher, group })]
        : handlerLines(handler, { tree, path: at, matcher })
    })
    // No later route runs, even if this one has not answered.
    if (route.terminal === true)
      lines.push(
        tree.line([...path, 'terminal'], 'route', matcher, [
          ...definition,
          ...inside,
          tree.line([...path, 'terminal'], 'respond', ['200'])
        ])
      )
    else lines.push(...inside)
  }
  return lines
}

/** Returns the files of `try_files`, which is a matcher and a rewrite to the found file in JSON. */
function triedFiles({ match, handle }: Fields): string[] | undefined {
  const [set, ...sets] = toList(match).map(fieldsOf)
  const [handler, ...handlers] = toList(handle).map(fieldsOf)
  if (set === undefined || handler?.uri !== FOUND_FILE || sets.length + handlers.length > 0) return undefined
  const { try_files: files, ...others } = fieldsOf(set.file)
  return Object.keys(set).length === 1 && Object.keys(others).length === 0 ? textsOf(files) : undefined
}

interface BlockContext {
  readonly tree: AdaptedTree
  readonly path: JsonPath
  readonly matcher: readonly string[]
  readonly group: string | undefined
}

function subroute({ routes, errors }: Fields, { tree, path, matcher, group }: BlockContext): CaddyDirective {
  const placed = toList(routes).map((route, index) => ({
    route: fieldsOf(route),
    path: [...path, 'routes', index] as JsonPath
  }))
  const first = placed[0]?.route
  const [strip, ...others] = toList(first?.handle).map(fieldsOf)
  const prefix = first?.match === undefined && others.length === 0 ? textOf(strip?.strip_path_prefix) : undefined
  const isStripped = prefix !== undefined && matcher[0] === `${prefix}/*`
  const block = routesToDirectives(isStripped ? placed.slice(1) : placed, tree)
  if (errors !== undefined) block.push(tree.line([...path, 'errors'], 'handle_errors', []))
  return tree.line(path, isStripped ? 'handle_path' : group === undefined ? 'route' : 'handle', matcher, block)
}

/** Returns the token of a matcher. Defines a named matcher unless it is a path. */
function toMatcher(
  conditions: readonly CaddyDirective[],
  { tree, path, isExact }: { readonly tree: AdaptedTree; readonly path: JsonPath; readonly isExact: boolean }
): { readonly token?: string; readonly definition: readonly CaddyDirective[] } {
  const [first, ...others] = conditions
  if (first === undefined) return { definition: [] }
  const [only = '', ...paths] = first.args
  if (isExact && others.length === 0 && first.name === 'path' && paths.length === 0 && /^\/[^{}]*$/.test(only))
    return { token: only, definition: [] }
  const { line, column } = tree.at(path)
  const token = `@${conditions.map(({ name }) => name).join('-')}-${line}-${column}`
  return { token, definition: [tree.line([...path, 'match'], token, [], conditions)] }
}

interface Matchers {
  readonly tree: AdaptedTree
  readonly path: JsonPath
}

/** Returns the lines of a matcher block for JSON sets, of which one must match. */
function toConditions(sets: readonly Fields[], matchers: Matchers): CaddyDirective[] {
  const [first, ...others] = sets.map((set) => setLines(set, matchers))
  if (first === undefined) return []
  return others.length === 0 ? first : either([first, ...others], matchers)
}

/** Returns a condition for one of several sets, as the negation of none. */
function either(sets: readonly (readonly CaddyDirective[])[], { tree, path }: Matchers): CaddyDirective[] {
  const none = sets.map((set) => tree.line(path, 'not', [], set))
  return [tree.line(path, 'not', [], none)]
}

function setLines(set: Fields, matchers: Matchers): CaddyDirective[] {
  const { tree, path } = matchers
  const line = (name: string, args: readonly string[]) => tree.line(path, name, args)
  return Object.entries(set).flatMap(([name, value]): CaddyDirective[] => {
    switch (name) {
      case 'host':
      case 'path':
      case 'method':
        return [line(name, textsOf(value))]
      case 'protocol':
        return [line(name, [textOf(value) ?? ''])]
      case 'remote_ip':
      case 'client_ip':
        return [line(name, textsOf(fieldsOf(value).ranges))]
      case 'path_regexp':
        return [line(name, [textOf(fieldsOf(value).pattern) ?? ''])]
      case 'header':
        return Object.entries(fieldsOf(value)).flatMap(([field, values]) =>
          headerLines(field, textsOf(values), matchers)
        )
      case 'header_regexp':
        return Object.entries(fieldsOf(value)).map(([field, one]) =>
          line(name, [field, textOf(fieldsOf(one).pattern) ?? ''])
        )
      case 'query':
        return Object.entries(fieldsOf(value)).map(([key, values]) =>
          line(
            name,
            textsOf(values).map((one) => `${key}=${one}`)
          )
        )
      case 'not':
        return toList(value).map((one) => tree.line(path, 'not', [], setLines(fieldsOf(one), matchers)))
      default:
        return [line(name, [])]
    }
  })
}

function headerLines(field: string, values: readonly string[], matchers: Matchers): CaddyDirective[] {
  const { tree, path } = matchers
  const lines = (values.length === 0 ? [[`!${field}`]] : values.map((value) => [field, value])).map((args) =>
    tree.line(path, 'header', args)
  )
  return lines.length === 1
    ? lines
    : either(
        lines.map((line) => [line]),
        matchers
      )
}
