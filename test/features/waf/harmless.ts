import { readFileSync } from 'node:fs'

/** Harmless texts by kind, as Latin-1 text of their UTF-8 bytes. */
export const harmlessTexts: readonly string[] = Object.values(
  JSON.parse(readFileSync('test/features/waf/harmless/texts.json', 'utf8')) as Record<string, string[]>
)
  .flat()
  .map((text) => Buffer.from(text, 'utf8').toString('latin1'))

/** A harmless request; the body is text of which UTF-8 is sent. */
export interface HarmlessRequest {
  readonly name: string
  readonly method: string
  readonly uri: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Requests of browsers, forms, uploads and APIs that no rule of paranoia level 1 may block. */
export const harmlessRequests = JSON.parse(
  readFileSync('test/features/waf/harmless/requests.json', 'utf8')
) as readonly HarmlessRequest[]
