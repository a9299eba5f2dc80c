const QUALITY = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/
const ALIASES: Readonly<Record<string, string>> = { 'x-gzip': 'gzip', 'x-compress': 'compress' }

/**
 * The coding to use for a client that sent `header` (RFC 9110 12.5.3), or undefined to leave the content as it is.
 *
 * The highest quality wins; between equals the first of `offered` does. `*` speaks for what is not named, and a quality
 * of zero refuses. A client that gives `identity` a higher quality than every coding gets no coding. Elements with a
 * malformed quality are passed over.
 */
export function negotiate<C extends string>(header: string, offered: readonly C[]): C | undefined {
  const qualities = qualitiesOf(header)
  const others = qualities.get('*')
  let best: C | undefined
  let bestQuality = qualities.get('identity') ?? 0
  for (const coding of offered) {
    const quality = qualities.get(coding) ?? others ?? 0
    if (quality > 0 && (best === undefined ? quality >= bestQuality : quality > bestQuality)) {
      best = coding
      bestQuality = quality
    }
  }
  return best
}

function qualitiesOf(header: string): Map<string, number> {
  const qualities = new Map<string, number>()
  for (const element of header.split(',')) {
    const [name = '', ...parameters] = element.split(';')
    const coding = name.trim().toLowerCase()
    const quality = qualityOf(parameters)
    if (coding !== '' && quality !== undefined)
      qualities.set(Object.hasOwn(ALIASES, coding) ? (ALIASES[coding] as string) : coding, quality)
  }
  return qualities
}

/** 1 without a parameter `q`; undefined when it is malformed. */
function qualityOf(parameters: readonly string[]): number | undefined {
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=')
    if (name.trim().toLowerCase() !== 'q') continue
    return QUALITY.test(value.trim()) ? Number(value) : undefined
  }
  return 1
}
