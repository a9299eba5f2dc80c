import { readFile } from 'node:fs/promises'

/** A task of a page: its title, and the texts of its files by name. */
export interface Task {
  readonly title: string
  readonly files: ReadonlyMap<string, string>
}

/** Returns the tasks of a page of `docs`: its numbered headings with the files below them. */
export async function tasksOf(page: string): Promise<Task[]> {
  return (await readFile(`docs/${page}`, 'utf8'))
    .split(/^## \d+\. /m)
    .slice(1)
    .map((section) => ({
      title: section.slice(0, section.indexOf('\n')),
      files: new Map(
        [...section.matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name = '', text = '']) => [name, text])
      )
    }))
}

/** Returns the number of lines that are neither blank nor comments. */
export function countLines(text: string): number {
  return text.split('\n').filter((line) => line.trim() !== '' && !line.trimStart().startsWith('#')).length
}
