import { createInterface } from 'node:readline/promises'

/** Prints a question and reads yes or no from the terminal; undefined if standard input is not a terminal. */
export async function confirmed(question: string): Promise<boolean | undefined> {
  if (!process.stdin.isTTY) return undefined
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^y(es)?$/i.test((await reader.question(`${question} [y/N] `)).trim())
  } finally {
    reader.close()
  }
}
