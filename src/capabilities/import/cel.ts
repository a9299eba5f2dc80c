import { compileRegex } from '../../lib/regex.js'
import type { RouteTest, Template } from './model.js'

/** A text as a CEL literal. */
export function celText(text: string): string {
  const escaped = text.replace(
    /[\\'\n\r\t]/g,
    (char) => ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' })[char] ?? `\\${char}`
  )
  return `'${escaped}'`
}

/** Text of a template that stands for itself. */
export const literal = (text: string): Template => text.replaceAll('${', "${'${'}")

/** A CEL expression of text as a template. */
export const embedded = (cel: string): Template => `\${${cel}}`

/** A pattern of PCRE in RE2 syntax; undefined where RE2 cannot say it: look-around, back-references, atomic groups. */
export function toRe2(pattern: string): string | undefined {
  const converted = pattern.replace(/\(\?<([A-Za-z_]\w*)>/g, '(?P<$1>').replace(/\\\//g, '/')
  return compileRegex(converted).ok ? converted : undefined
}

/** CEL that is true if one of the paths is that of the request. */
export function pathIn(paths: readonly string[]): string {
  const [first = ''] = paths
  return paths.length === 1 ? `req.url.path == ${celText(first)}` : `req.url.path in [${paths.map(celText).join(', ')}]`
}

/** CEL of a test of a route. */
export function celOfTest(test: RouteTest): string {
  switch (test.kind) {
    case 'path-exact':
      return pathIn([test.path])
    case 'path-prefix': {
      const { path, border } = test
      if (path === '' || path === '/') return 'true'
      if (border === 'text') return `req.url.path.startsWith(${celText(path)})`
      const bare = path.endsWith('/') ? path.slice(0, -1) : path
      return `(req.url.path == ${celText(bare)} || req.url.path.startsWith(${celText(`${bare}/`)}))`
    }
    case 'path-regex':
      return `req.url.path.matches(${celText(`${test.ignoreCase ? '(?i)' : ''}${test.pattern}`)})`
    case 'method':
      return test.methods.length === 1
        ? `req.method == ${celText(test.methods[0] as string)}`
        : `req.method in [${test.methods.map(celText).join(', ')}]`
    case 'expression':
      return test.cel
  }
}

/** CEL that is true if `cel` is not. */
export function negated(cel: string): string {
  return /^[\w.]+\((?:[^()'"]|'(?:[^'\\]|\\.)*')*\)$/.test(cel) || (cel.startsWith('(') && cel.endsWith(')'))
    ? `!${cel}`
    : `!(${cel})`
}
