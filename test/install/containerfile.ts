import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Folder of what belongs to containers. */
export const FOLDER = join('config', 'container')

export interface Instruction {
  readonly name: string
  readonly text: string
}

/** Returns the instructions of each stage of the Containerfile. */
export async function stages(): Promise<Instruction[][]> {
  const text = (await readFile(join(FOLDER, 'Containerfile'), 'utf8')).replace(/^#.*\n/gm, '').replace(/\\\n\s*/g, '')
  const found: Instruction[][] = []
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, name = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    if (name === 'FROM') found.push([])
    found.at(-1)?.push({ name, text: rest })
  }
  return found
}

/** Returns the text of the one instruction with this name. */
export function only(stage: readonly Instruction[], name: string): string {
  const texts = stage.filter((each) => each.name === name).map(({ text }) => text)
  return texts.length === 1 ? (texts[0] as string) : `${texts.length} times ${name}`
}
