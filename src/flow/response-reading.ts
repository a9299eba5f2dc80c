import { canDecode } from './content-coding.js'
import type { HeaderFields, HeaderList } from './headers.js'

/**
 * What a policy will do with the content of the response: read it while it streams (`stream`), or have all of it first
 * (`whole`).
 */
export type ResponseReading = 'stream' | 'whole'

/** The greater of two demands. */
export function greaterReading(a: ResponseReading | undefined, b: ResponseReading): ResponseReading {
  return a === 'whole' ? a : b
}

/**
 * The header fields of a request whose response will be read here: `Accept-Encoding` names nothing that cannot be undone
 * (RFC 9110 12.5.3), and where the whole is needed no part is asked for (`Range` may be ignored, RFC 9110 14.2). The
 * fields of the client stay as they are: its answer is negotiated by them.
 */
export function fieldsForReading(headers: HeaderFields, reading: ResponseReading): HeaderList {
  const list: string[] = []
  for (let i = 0; i < headers.list.length; i += 2) {
    const [name, value] = [headers.list[i] as string, headers.list[i + 1] as string]
    const lower = name.toLowerCase()
    if (reading === 'whole' && (lower === 'range' || lower === 'if-range')) continue
    list.push(name, lower === 'accept-encoding' ? narrowed(value) : value)
  }
  return list
}

/** `*` stands for codings that were not named, so nothing of it is left but its refusal. */
function narrowed(value: string): string {
  const kept = value.split(',').filter((element) => {
    const [name = '', ...parameters] = element.split(';')
    const coding = name.trim().toLowerCase()
    return coding === '*' ? isRefusal(parameters) : coding === 'identity' || canDecode(coding)
  })
  const text = kept.map((element) => element.trim()).join(', ')
  return text === '' ? 'identity' : text
}

function isRefusal(parameters: readonly string[]): boolean {
  return parameters.some((parameter) => /^\s*q\s*=\s*0(?:\.0{0,3})?\s*$/i.test(parameter))
}
