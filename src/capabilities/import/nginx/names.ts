import { close, EXACT, type ImportedHost, notHere, type Verdict } from '../model.js'
import type { Level } from './level.js'
import type { Endpoint } from './listen.js'

/** Names that stand for no host: they serve to make a default server. */
const NO_NAMES = ['', '_', '""', '-', '!!']

/** Names of `server_name` in the form of site files. */
export function namesOf(level: Level): string[] {
  return level.own('server_name').flatMap((directive) => {
    const verdicts: Verdict[] = [EXACT]
    const names = directive.args.flatMap((name): string[] => {
      if (NO_NAMES.includes(name)) return []
      if (name.startsWith('~')) {
        verdicts.push(notHere('names by an expression are not taken over', 'write the names, or one with a star'))
        return []
      }
      if (name.endsWith('.*')) {
        verdicts.push(notHere('a star at the end of a name is refused', 'write the names'))
        return []
      }
      if (name.startsWith('.')) return [name.slice(1), `*${name}`]
      if (/^\*\.[^.]+$/.test(name)) {
        verdicts.push(notHere('a star stands before two labels at least', 'write the names'))
        return []
      }
      if (name === '$hostname') {
        verdicts.push(close('the name of the machine is not known here'))
        return []
      }
      return [name.replace(/\$\{\w+\}|[A-Z]+/g, (text) => (text.startsWith('$') ? text : text.toLowerCase()))]
    })
    for (const verdict of verdicts) level.judge(directive, verdict)
    return names
  })
}

interface Block {
  readonly endpoints: readonly Endpoint[]
  readonly host: ImportedHost
}

/**
 * Names of each block for a site file. The default server of each endpoint, which is the first one unless another says so, also gets every
 * name that no other server has. Of two blocks with the same name at the same endpoint the first one has it.
 */
export function sortDefaults(blocks: readonly Block[]): { host: ImportedHost; names: string[] }[] {
  const defaults = new Set<Block>()
  for (const { address, port } of blocks.flatMap(({ endpoints }) => endpoints)) {
    const here = blocks.filter(({ endpoints }) => endpoints.some((one) => one.address === address && one.port === port))
    const named = here.find(({ endpoints }) => endpoints.some((one) => one.port === port && one.isDefault))
    const first = named ?? here[0]
    if (first !== undefined) defaults.add(first)
  }
  const taken = new Set<string>()
  return blocks.map((block) => {
    const { host } = block
    const wanted = defaults.has(block) ? [...host.names, '*'] : host.names
    const names = [...new Set(wanted)].filter((name) => {
      const places = host.ports.map(({ port }) => `${name}:${port}`)
      if (places.every((place) => taken.has(place))) return false
      for (const place of places) taken.add(place)
      return true
    })
    return { host, names }
  })
}
