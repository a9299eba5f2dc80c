import type { WriteStream } from 'node:tty'
import { styleText } from 'node:util'
import { destination, type Logger, pino } from 'pino'

export interface ProcessLog {
  readonly logger: Logger
  /** Writes what is still held back; call it before the process ends. */
  flush(): void
}

/**
 * The log on standard output: one JSON object a line, or, on a terminal, one readable line. Lines are handed over
 * without waiting for the reader.
 */
export function createLog(level: string, output: WriteStream): ProcessLog {
  const options = { level, base: undefined }
  if (output.isTTY) {
    const logger = pino(options, { write: (line: string) => void output.write(readable(line)) })
    return { logger, flush: () => undefined }
  }
  const target = destination({ dest: output.fd, sync: false })
  return { logger: pino(options, target), flush: () => target.flushSync() }
}

const SEVERITIES = [
  [50, 'error', 'red'],
  [40, 'warning', 'yellow'],
  [30, '', 'reset'],
  [0, 'debug', 'gray']
] as const

/** `12:30:05 GET 127.0.0.1:8080/ 200 3ms`, or the message with its fields. */
function readable(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as {
    level: number
    time: number
    msg?: string
    [field: string]: unknown
  }
  const [, word, colour] = SEVERITIES.find(([least]) => level >= least) ?? SEVERITIES[3]
  const clock = styleText('gray', new Date(time).toTimeString().slice(0, 8))
  const severity = word === '' ? '' : `${styleText(colour, word)} `
  return `${clock} ${severity}${msg ?? ''}${fieldsOf(fields)}\n`
}

function fieldsOf(fields: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  )
  return texts.length === 0 ? '' : ` ${styleText('gray', texts.join(' '))}`
}
