import { readFileSync } from 'node:fs'

/** Harmless texts by kind, as Latin-1 text of their UTF-8 bytes. */
export const harmlessTexts: readonly string[] = Object.values(
  JSON.parse(readFileSync('test/features/waf/harmless/texts.json', 'utf8')) as Record<string, string[]>
)
  .flat()
  .map((text) => Buffer.from(text, 'utf8').toString('latin1'))
