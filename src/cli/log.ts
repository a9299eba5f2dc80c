import { styleText } from 'node:util'
import { type Logger, pino } from 'pino'
import { LineOutput } from '../lib/line-output.js'
import { printable, printableJson } from '../lib/printable.js'

/** Log of the process and the output that it shares. */
export interface ProcessLog {
  readonly logger: Logger
  /** Output of its lines, and of all other output of the process to standard output. */
  readonly output: LineOutput
  /** Takes whole lines of a log, as another thread has made them. */
  lines(text: string): void
  /** Writes queued lines, for at most a second; call it before the process ends. */
  close(): Promise<void>
}

/** Maximum time for writing the last lines at the end of the process (ms). */
const LAST_LINES = 1_000

/**
 * Creates the log on standard output: one JSON object per line or, on a terminal, one readable line. A slow reader or a full
 * disk only drops lines beyond `bytes` of memory.
 */
export function createLog(
  { level, bytes }: { readonly level: string; readonly bytes: number },
  stream: NodeJS.WriteStream & { fd: number }
): ProcessLog {
  const output = new LineOutput({
    fd: stream.fd,
    bytes,
    recovered: ({ dropped, lasted, reason }) =>
      logger.warn({ dropped, seconds: Math.round(lasted / 100) / 10, reason }, 'log output resumed; lines were dropped')
  })
  const write = stream.isTTY
    ? (line: string) => void output.write(readable(line))
    : (line: string) => void output.write(printableJson(line))
  const logger = pino({ level, base: null }, { write })
  const ending = () => output.writeNow()
  process.on('exit', ending)
  return {
    logger,
    output,
    lines(text) {
      if (!stream.isTTY) output.write(printableJson(text))
      else for (const line of text.split('\n')) if (line !== '') write(line)
    },
    async close() {
      await output.close(LAST_LINES)
      process.off('exit', ending)
    }
  }
}

const SEVERITIES = [
  [50, 'error', 'red'],
  [40, 'warning', 'yellow'],
  [30, '', 'reset'],
  [0, 'debug', 'gray']
] as const

/** `12:30:05 GET 127.0.0.1:8080/ 200 3ms`, or the message with its fields. */
function readable(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as LogLine
  const [, word, colour] = SEVERITIES.find(([least]) => level >= least) ?? SEVERITIES[3]
  const clock = styleText('gray', new Date(time).toTimeString().slice(0, 8))
  const severity = word === '' ? '' : `${styleText(colour, word)} `
  const text = typeof fields.method === 'string' ? exchange(fields) : `${printable(msg ?? '')}${fieldsOf(fields)}`
  return `${clock} ${severity}${text}\n`
}

interface LogLine {
  readonly level: number
  readonly time: number
  readonly msg?: string
  readonly [field: string]: unknown
}

/** Formats a line of the access log without fields for programs. */
function exchange({
  method,
  host,
  path,
  status,
  duration_ms,
  rule,
  action,
  code,
  client
}: Record<string, unknown>): string {
  const colour = Number(status) >= 500 ? 'red' : Number(status) >= 400 ? 'yellow' : 'green'
  const why = fieldsOf(
    Object.fromEntries(Object.entries({ rule, action, code, client }).filter(([, value]) => value !== undefined))
  )
  return `${printable(`${String(method)} ${String(host ?? '')}${String(path)}`)} ${styleText(colour, String(status))} ${String(duration_ms)}ms${why}`
}

function fieldsOf(fields: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  )
  return texts.length === 0 ? '' : ` ${styleText('gray', printable(texts.join(' ')))}`
}
