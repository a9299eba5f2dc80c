/** The paths of the API and their methods, to tell a path that is not there from a method that it lacks. */
export class KnownPaths {
  readonly #paths: { readonly segments: readonly string[]; readonly methods: Set<string> }[] = []

  /** `pattern` as the router has it: `/edges/https/:edge_id/routes`. */
  add(pattern: string, methods: Iterable<string>): void {
    const segments = pattern.split('/')
    const known = this.#paths.find((path) => path.segments.join('/') === pattern)
    const target = known ?? { segments, methods: new Set<string>() }
    if (known === undefined) this.#paths.push(target)
    for (const method of methods) target.methods.add(method)
  }

  /** Methods of every path that `path` (without query) can mean, sorted; empty when there is none. */
  methodsOf(path: string): readonly string[] {
    const segments = path.split('/')
    const found = new Set<string>()
    for (const known of this.#paths) {
      if (!matches(known.segments, segments)) continue
      for (const method of known.methods) found.add(method)
    }
    return [...found].sort()
  }
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, at) => (part.startsWith(':') ? segments[at] !== '' : part === segments[at]))
  )
}
