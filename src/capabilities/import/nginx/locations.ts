import { toRe2 } from '../cel.js'
import type { RouteTest } from '../model.js'
import type { Directive } from './syntax.js'

type Modifier = '' | '=' | '^~' | '~' | '~*'

/** A location block in the tree of its server. */
export interface Location {
  readonly directive: Directive
  readonly modifier: Modifier
  /** Prefix, whole path or pattern. */
  readonly path: string
  readonly children: readonly Location[]
}

/** A location with the tests that make nginx choose it, if no entry before it is chosen. */
export interface LocationEntry {
  readonly location: Location
  readonly tests: readonly RouteTest[]
  readonly unless: readonly RouteTest[]
}

/** Reads the locations of a block; named ones (`@name`) are left out. */
export function locationsOf(directives: readonly Directive[]): Location[] {
  return directives.flatMap((directive) => {
    const { name, args, block } = directive
    if (name !== 'location' || block === undefined || args[0]?.startsWith('@') === true) return []
    const [modifier, path] = modifierOf(args)
    const isPattern = modifier === '~' || modifier === '~*'
    // nginx compares decoded paths, and Sluice paths in their normal form.
    return [{ directive, modifier, path: isPattern ? path : encodeURI(path), children: locationsOf(block) }]
  })
}

/** `location =/path` needs no space behind the sign. */
function modifierOf([first = '', second]: readonly string[]): [Modifier, string] {
  if (second !== undefined) return [first as Modifier, second]
  const [, sign = '', path = ''] = /^(=|\^~|~\*|~)?(.*)$/s.exec(first) ?? []
  return [sign as Modifier, path]
}

export const isRegex = ({ modifier }: Location) => modifier === '~' || modifier === '~*'
const isExact = ({ modifier }: Location) => modifier === '='
const prefix = ({ path }: Location): RouteTest => ({ kind: 'path-prefix', path, border: 'text' })
const extendsPath = (longer: Location, shorter: Location) =>
  longer.path !== shorter.path && longer.path.startsWith(shorter.path)
const byLength = (one: Location, other: Location) => other.path.length - one.path.length

interface Ordered {
  readonly exact: LocationEntry[]
  readonly strong: LocationEntry[]
  readonly regex: LocationEntry[]
  readonly plain: LocationEntry[]
}

/**
 * The locations in an order in which the first one whose tests are true is the one that nginx chooses: exact ones, prefixes
 * with `^~`, expressions in the order of the file, prefixes from the longest to the shortest (ngx_http_core_find_location).
 * Inner locations come before the one around them; inner expressions also before outer ones.
 */
export function orderLocations(locations: readonly Location[]): LocationEntry[] {
  const { exact, strong, regex, plain } = ordered(locations)
  return [...exact, ...strong, ...regex, ...plain]
}

function ordered(level: readonly Location[]): Ordered {
  const result: Ordered = { exact: [], strong: [], regex: [], plain: [] }
  const statics = level.filter((location) => !isRegex(location) && !isExact(location)).sort(byLength)
  for (const location of level.filter(isExact)) {
    result.exact.push({ location, tests: [{ kind: 'path-exact', path: location.path }], unless: [] })
  }
  for (const location of statics) {
    const longer = statics.filter((other) => extendsPath(other, location)).map(prefix)
    const inner = ordered(location.children)
    const reached = (entry: LocationEntry) =>
      !statics.some((other) => extendsPath(other, location) && covers(other, entry))
    const own: LocationEntry = { location, tests: [prefix(location)], unless: longer }
    const inside = (entries: readonly LocationEntry[]) =>
      entries.map((entry) => within(entry, prefix(location), longer))
    const regexes = inside(regexesBesideStrong(inner.regex, location.children))
    const inStatics = [...inner.strong, ...inner.plain].filter(reached)
    result.exact.push(...inner.exact.filter(reached))
    if (location.modifier === '^~') result.strong.push(...regexes, ...inStatics, own)
    else {
      result.regex.push(...regexes)
      result.plain.push(...inStatics, { ...own, unless: [] })
    }
  }
  for (const location of level.filter(isRegex)) {
    const test = regexTest(location)
    const inner = ordered(location.children)
    const all = [...inner.exact, ...inner.strong, ...inner.regex, ...inner.plain]
    result.regex.push(...all.map((entry) => within(entry, test, [])), { location, tests: [test], unless: [] })
  }
  result.plain.sort((one, other) => byLength(one.location, other.location))
  return result
}

/** Inner expressions where no inner prefix with `^~` is the longest: none is true, or a longer prefix without the sign is. */
function regexesBesideStrong(entries: readonly LocationEntry[], level: readonly Location[]): LocationEntry[] {
  const statics = level.filter((location) => !isRegex(location) && !isExact(location))
  const strong = statics.filter(({ modifier }) => modifier === '^~')
  const longerPlain = statics.filter((plain) => plain.modifier === '' && strong.some((one) => extendsPath(plain, one)))
  return entries.flatMap((entry) => [
    { ...entry, unless: [...entry.unless, ...strong.map(prefix)] },
    ...longerPlain.map((plain) =>
      within(entry, prefix(plain), strong.filter((one) => extendsPath(one, plain)).map(prefix))
    )
  ])
}

const covers = (outer: Location, { location }: LocationEntry) => location.path.startsWith(outer.path)

function within(
  { location, tests, unless }: LocationEntry,
  outer: RouteTest,
  further: readonly RouteTest[]
): LocationEntry {
  return { location, tests: [outer, ...tests], unless: [...unless, ...further] }
}

/** The pattern in the syntax of nginx; the reader converts it. */
function regexTest({ modifier, path }: Location): RouteTest {
  return { kind: 'path-regex', pattern: path, ignoreCase: modifier === '~*' }
}

interface ConvertedTests {
  readonly tests: RouteTest[]
  readonly except: RouteTest[]
}

/** Tests with patterns of RE2; undefined if one has no such form. A negative look-ahead becomes an exception. */
export function convertTests(tests: readonly RouteTest[]): ConvertedTests | undefined {
  const converted: ConvertedTests = { tests: [], except: [] }
  for (const test of tests) {
    if (test.kind !== 'path-regex') {
      converted.tests.push(test)
      continue
    }
    const plain = toRe2(test.pattern)
    const [, before = '', not = '', after = ''] = /^(.*)\(\?!((?:[^()\\]|\\.)*)\)(.*)$/s.exec(test.pattern) ?? []
    const pattern = plain ?? (not === '' ? undefined : toRe2(before + after))
    const except = plain === undefined ? toRe2(`${before}(?:${not})`) : undefined
    if (pattern === undefined || (plain === undefined && except === undefined)) return undefined
    converted.tests.push({ ...test, pattern })
    if (except !== undefined) converted.except.push({ ...test, pattern: except })
  }
  return converted
}
