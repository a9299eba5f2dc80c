import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { dirname, isAbsolute, join } from 'node:path'
import { CodedError, codeOf } from '../../../lib/errors.js'
import { printableLines } from '../../../lib/printable.js'
import { importErrors } from '../errors.js'
import type { ImportSources } from '../model.js'

/** Time for one Caddyfile (ms). */
const TIMEOUT = 15_000
/** Maximum size of the JSON (bytes). */
const MAX_OUTPUT = 16 * 1024 * 1024
/** Maximum number of files that are searched for variables. */
const MAX_FILES = 1000
/** Lowest port that is used as a mark. */
const FIRST_PORT = 64_000

const VARIABLE = /\{\$([A-Za-z_]\w*)(?::([^{}]*))?\}/g
const IMPORT = /^[ \t]*import[ \t]+([^\s"`{}]+)/gm

/** A variable, and the text that replaces it while Caddy reads the file. */
interface Mark {
  readonly name: string
  /** Text of the variable in the file, such as `{$NAME:default}`. */
  readonly written: string
  readonly mark: string
  readonly isPort: boolean
}

/**
 * Lets the program `caddy` translate Caddyfiles, and returns sources that have its JSON in place of them. Variables of the environment stay
 * variables: Caddy gets marks as their values, which are turned back. Where Caddy refuses the marks, it gets the environment itself. Throws
 * IMPORT_ADAPT.
 */
export async function adaptFiles(
  files: readonly string[],
  sources: ImportSources
): Promise<{ readonly files: readonly string[]; readonly sources: ImportSources }> {
  const adapted = new Map<string, string>()
  for (const file of files) adapted.set(`${file} as JSON`, await adaptFile(file, sources))
  return {
    files: [...adapted.keys()],
    sources: { ...sources, readFile: async (path) => adapted.get(path) ?? (await sources.readFile(path)) }
  }
}

async function adaptFile(file: string, sources: ImportSources): Promise<string> {
  const marks = markVariables(await readTexts(file, sources))
  const marked = marks.length === 0 ? undefined : await runCaddy(file, { ...sources.environment, ...markValues(marks) })
  if (marked?.ok === true) return turnBack(marked.json, marks)
  const plain = await runCaddy(file, sources.environment)
  if (plain.ok) return plain.json
  throw new CodedError(importErrors.IMPORT_ADAPT, `${file}: ${plain.problem}`)
}

const markValues = (marks: readonly Mark[]) => Object.fromEntries(marks.map(({ name, mark }) => [name, mark]))

/** Returns the texts of a Caddyfile and of the files that it imports. */
async function readTexts(file: string, sources: ImportSources): Promise<string[]> {
  const texts: string[] = []
  const waiting = [file]
  const seen = new Set(waiting)
  for (let path = waiting.shift(); path !== undefined && texts.length < MAX_FILES; path = waiting.shift()) {
    const text =
      path === file ? await sources.readFile(path) : await optional(() => sources.readFile(path as string), '')
    texts.push(text)
    for (const [, pattern = ''] of text.matchAll(IMPORT)) {
      const target = isAbsolute(pattern) ? pattern : join(dirname(path), pattern)
      const folder = dirname(target)
      const names = target.includes('*') ? await optional(() => sources.listFolder(folder), []) : undefined
      for (const one of names?.map((name) => join(folder, name)) ?? [target]) {
        if (!seen.has(one)) waiting.push(one)
        seen.add(one)
      }
    }
  }
  return texts
}

/** Returns `otherwise` if a file does not exist, because an `import` may also name a snippet. */
async function optional<T>(read: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (codeOf(error) === undefined) throw error
    return otherwise
  }
}

/** Returns marks for the variables of the texts, except those with several defaults. */
function markVariables(texts: readonly string[]): Mark[] {
  const whole = texts.join('\n')
  const uses = new Map<string, { readonly written: Set<string>; isPort: boolean }>()
  for (const match of whole.matchAll(VARIABLE)) {
    const [written, name = ''] = match
    const use = uses.get(name) ?? { written: new Set(), isPort: true }
    use.written.add(written)
    use.isPort &&= whole[match.index - 1] === ':'
    uses.set(name, use)
  }
  const ports = new Set([...whole.matchAll(/\d+/g)].map(([digits]) => digits))
  let port = FIRST_PORT
  const word = randomBytes(6).toString('hex')
  return [...uses].flatMap(([name, { written, isPort }], index): Mark[] => {
    const [only = '', ...others] = written
    if (others.length > 0) return []
    if (!isPort) return [{ name, written: only, mark: `v${index}-${word}.invalid`, isPort }]
    while (ports.has(String(port))) port++
    return port > 65_535 ? [] : [{ name, written: only, mark: String(port++), isPort }]
  })
}

function turnBack(json: string, marks: readonly Mark[]): string {
  return marks.reduce((text, { mark, written, isPort }) => {
    const inside = JSON.stringify(written).slice(1, -1)
    return isPort
      ? text.replace(new RegExp(`:${mark}(?!\\d)`, 'g'), () => `:${inside}`)
      : text.replaceAll(mark, () => inside)
  }, json)
}

type Run = { readonly ok: true; readonly json: string } | { readonly ok: false; readonly problem: string }

/** Runs `caddy adapt` without a shell. */
function runCaddy(file: string, environment: ImportSources['environment']): Promise<Run> {
  const args = ['adapt', '--pretty', '--config', file, '--adapter', 'caddyfile']
  const options = { env: { ...environment }, timeout: TIMEOUT, maxBuffer: MAX_OUTPUT, killSignal: 'SIGKILL' } as const
  return new Promise((resolve) => {
    const child = execFile('caddy', args, { ...options, windowsHide: true }, (error, json, messages) => {
      if (error === null) resolve({ ok: true, json })
      else resolve({ ok: false, problem: describeFailure(error, messages) })
    })
    child.stdin?.end()
  })
}

function describeFailure(error: Error & { readonly killed?: boolean }, messages: string): string {
  const code = codeOf(error)
  if (code === 'ENOENT') return 'there is no program `caddy` in PATH'
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `its JSON is too large`
  if (error.killed === true) return `\`caddy adapt\` has not ended within ${TIMEOUT / 1000} s`
  const last = messages.trim().split('\n').at(-1) ?? ''
  return `\`caddy adapt\` refuses it: ${printableLines(last.replace(/^Error: /, '').slice(0, 500))}`
}
