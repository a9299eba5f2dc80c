import { celText, embedded, literal, toRe2 } from '../cel.js'
import type { Template } from '../model.js'
import { anyOf, clientIn, cookieValue, queryParameter, requestField } from '../requests-in-cel.js'

/** CEL of a sample fetch such as `req.hdr(host)`; undefined if Sluice has no such value. */
export function sampleCel(text: string): string | undefined {
  const [fetch = '', ...converters] = text.split(/,(?![^()]*\))/)
  const base = fetchCel(fetch)
  if (base === undefined) return undefined
  let cel = base
  for (const converter of converters) {
    if (converter === 'lower') cel = `${cel}.lowerAscii()`
    else if (converter === 'upper') cel = `${cel}.upperAscii()`
    // The host has no port here anyway.
    else if (converter !== 'field(1,:)' || base !== 'req.url.host') return undefined
  }
  return cel
}

function fetchCel(fetch: string): string | undefined {
  const [, name = '', argument = ''] = /^([\w.-]+)(?:\(([^()]*)\))?$/.exec(fetch) ?? []
  switch (name) {
    case 'path':
      return 'req.url.path'
    case 'pathq':
    case 'url':
    case 'capture.req.uri':
      return 'req.url.uri'
    case 'query':
      return 'req.url.query'
    case 'method':
    case 'capture.req.method':
      return 'req.method'
    case 'src':
      return 'conn.client_ip'
    case 'src_port':
      return 'string(conn.client_port)'
    case 'req.ver':
      return 'req.version'
    case 'hdr':
    case 'hdr_dom':
    case 'req.hdr':
    case 'req.fhdr':
    case 'http_req.hdr':
    case 'fhdr':
      return argument.toLowerCase() === 'host'
        ? 'req.url.host'
        : argument === '' || argument.includes(',')
          ? undefined
          : requestField(argument)
    case 'url_param':
    case 'urlp':
      return argument === '' || argument.includes(',') ? undefined : queryParameter(argument)
    case 'cook':
    case 'req.cook':
      return argument === '' ? undefined : cookieValue(argument)
    case 'status':
      return 'string(res.status_code)'
    case 'str':
      return celText(argument)
    default:
      return undefined
  }
}

type Match = 'str' | 'beg' | 'end' | 'sub' | 'reg' | 'dir' | 'dom'

/** CEL of one ACL: fetch with flags and values. Undefined if it has no counterpart. */
export function aclCel([written = '', ...rest]: readonly string[]): string | undefined {
  if (written.includes('${')) return undefined
  if (written === 'always_true' || written === 'TRUE') return 'true'
  if (written === 'always_false' || written === 'FALSE') return 'false'
  if (written === 'METH_GET') return "req.method in ['GET', 'HEAD']"
  if (/^METH_[A-Z]+$/.test(written)) return `req.method == ${celText(written.slice(5))}`
  if (written === 'LOCALHOST') return clientIn(['127.0.0.1/8'])
  if (written === 'ssl_fc') return "req.url.scheme == 'https'"
  let ignoreCase = false
  let found: boolean = false
  let match: Match = 'str'
  const values = [...rest]
  while (values[0]?.startsWith('-') === true) {
    const flag = values.shift()
    if (flag === '-i') ignoreCase = true
    else if (flag === '-m') {
      const method = values.shift() ?? ''
      if (method === 'found') found = true
      else if (['str', 'beg', 'end', 'sub', 'reg', 'dir', 'dom'].includes(method)) match = method as Match
      else if (method !== 'ip') return undefined
    } else if (flag === '--') break
    else return undefined
  }
  const [, base = written, suffix] = /^([\w.]+?)_(beg|end|sub|reg|dir|dom)(?=\(|$|,)/.exec(written) ?? []
  if (suffix !== undefined) match = suffix as Match
  const fetch = suffix === undefined ? written : `${base}${written.slice(base.length + 1 + suffix.length)}`
  if (fetch === 'src') return clientIn(values)
  if (values.some((value) => value.includes('${'))) return undefined
  const field = /^(?:req\.)?f?hdr(?:_cnt)?\(([^(),]+)\)$/.exec(fetch)?.[1]
  if (field !== undefined && (found || (/_cnt/.test(fetch) && values.join(' ') === 'gt 0')))
    return `hasReqHeader(${celText(field.toLowerCase())})`
  if (found || values.length === 0) return undefined
  if (fetch === 'status')
    return values.every((value) => /^\d{3}$/.test(value)) ? `res.status_code in [${values.join(', ')}]` : undefined
  const cel = sampleCel(fetch)
  if (cel === undefined) return undefined
  const tests = values.map((value) => matchCel(cel, match, value, ignoreCase || cel === 'req.url.host'))
  return tests.includes(undefined) ? undefined : anyOf(tests as string[])
}

function matchCel(cel: string, match: Match, value: string, ignoreCase: boolean): string | undefined {
  if (match === 'reg') {
    const pattern = toRe2(value)
    return pattern === undefined ? undefined : `${cel}.matches(${celText(`${ignoreCase ? '(?i)' : ''}${pattern}`)})`
  }
  const subject = ignoreCase && cel !== 'req.url.host' ? `${cel}.lowerAscii()` : cel
  const text = celText(ignoreCase ? value.toLowerCase() : value)
  if (match === 'str') return `${subject} == ${text}`
  if (match === 'beg') return `${subject}.startsWith(${text})`
  if (match === 'end') return `${subject}.endsWith(${text})`
  if (match === 'sub') return `${subject}.contains(${text})`
  // A part between slashes, or between dots.
  const [border, escaped] = [match === 'dir' ? '/' : '[.:]', value.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')]
  return `${cel}.matches(${celText(`${ignoreCase ? '(?i)' : ''}(^|${border})${escaped}(${border}|$)`)})`
}

const ALIASES: Readonly<Record<string, string>> = {
  ci: 'src',
  cp: 'src_port',
  HM: 'method',
  HP: 'path',
  HQ: 'query',
  HU: 'url'
}

/** A log format as a template; undefined if a part of it has no counterpart. */
export function formatTemplate(text: string): Template | undefined {
  if (text.includes('${')) return undefined
  let template = ''
  let from = 0
  for (const match of text.matchAll(/%(?:\[((?:[^[\]]|\[[^\]]*\])*)\]|([A-Za-z]{2})|(%))/g)) {
    template += literal(text.slice(from, match.index))
    from = match.index + match[0].length
    if (match[3] !== undefined) {
      template += '%'
      continue
    }
    const fetch = match[1] ?? ALIASES[match[2] as string]
    const cel =
      fetch === 'ssl_fc'
        ? "(req.url.scheme == 'https' ? '1' : '0')"
        : fetch === undefined
          ? undefined
          : sampleCel(fetch)
    if (cel === undefined) return undefined
    template += embedded(cel)
  }
  const rest = text.slice(from)
  return rest.includes('%[') ? undefined : template + literal(rest)
}
