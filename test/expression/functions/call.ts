import { EvaluationError } from '../../../src/expression/expression.js'
import type { FunctionDefinition } from '../../../src/expression/signatures.js'

/**
 * The function of `definitions` whose signature begins with `head`, such as `string.charAt(int)`. It throws the error that
 * the function answers, so that both ways of having no value are one here.
 */
export function find(definitions: readonly FunctionDefinition[], head: string): (...args: unknown[]) => unknown {
  const [found, second] = definitions.filter(({ signature }) => signature.startsWith(`${head}:`))
  if (found === undefined || second !== undefined) throw new Error(`No single function ${head}`)
  return (...args) => thrown(found.run(...args))
}

/** `result`; an error that was answered is thrown. */
export function thrown(result: unknown): unknown {
  if (result instanceof EvaluationError) throw result
  return result
}

/** `absent` or `failed` when `run` throws an evaluation error, `answered` when it does not; other errors pass. */
export function outcome(run: () => unknown): 'absent' | 'failed' | 'answered' {
  try {
    run()
    return 'answered'
  } catch (error) {
    if (error instanceof EvaluationError) return error.kind
    throw error
  }
}

/** Numbers below a bound, the same ones for the same seed (mulberry32). */
export function randomNumbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}

const ALPHABET = [
  'a',
  'B',
  'z',
  ' ',
  ',',
  '%',
  '+',
  '&',
  '=',
  ';',
  '/',
  '"',
  '\\',
  '\n',
  '\u0000',
  'é',
  'Ω',
  '語',
  '😀',
  '𝄞'
]

/** A string of up to `longest` code points of one to four UTF-8 bytes, separators and escapes among them. */
export function randomText(random: (below: number) => number, longest: number): string {
  return Array.from({ length: random(longest + 1) }, () => ALPHABET[random(ALPHABET.length)]!).join('')
}
