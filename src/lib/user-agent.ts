import Bowser from 'bowser'
import { LRUCache } from 'lru-cache'

/** Content of a User-Agent header; '' for missing parts. */
export interface UserAgent {
  readonly name: string
  readonly version: string
  readonly os: string
  readonly osVersion: string
  readonly device: string
  /** URL in the headers of many bots. */
  readonly url: string
  readonly isMobile: boolean
  readonly isTablet: boolean
  readonly isDesktop: boolean
  readonly isBot: boolean
}

/** Maximum length of a parsed header: the parser's expressions are not linear. */
const MAX_LENGTH = 1024
/** Matches the names of bots. */
const BOT = /bot\b|bot[/;)]|crawl|spider|slurp|archiver|facebookexternalhit|preview|scan|monitor|fetcher|headless/i
const TOOL =
  /^(?:curl|wget|python-|python\/|go-http-client|java\/|okhttp|libwww|apache-httpclient|axios|node-fetch|undici|php\/|ruby|perl|httpie|postmanruntime)/i
const URL_IN_HEADER = /\+?(https?:\/\/[^\s;,)]+)/i
const PRODUCT = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\/([^\s;()]+)/

/** Parses User-Agent headers and caches the latest thousands. */
export class UserAgents {
  readonly #known = new LRUCache<string, UserAgent>({ max: 4096 })

  parse(header: string): UserAgent {
    const text = header.slice(0, MAX_LENGTH)
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const parsed = parse(text)
    this.#known.set(text, parsed)
    return parsed
  }
}

function parse(header: string): UserAgent {
  if (header === '') return EMPTY
  const { browser, os, platform } = Bowser.parse(header)
  const product = PRODUCT.exec(header)
  const type = platform.type ?? ''
  const isBot = type === 'bot' || BOT.test(header) || TOOL.test(header)
  return {
    name: browser.name || (product?.[1] ?? ''),
    version: browser.version || (browser.name ? '' : (product?.[2] ?? '')),
    os: os.name ?? '',
    osVersion: os.versionName ?? os.version ?? '',
    device: platform.model ?? '',
    url: URL_IN_HEADER.exec(header)?.[1] ?? '',
    isMobile: type === 'mobile',
    isTablet: type === 'tablet',
    isDesktop: type === 'desktop' && !isBot,
    isBot
  }
}

const EMPTY: UserAgent = {
  name: '',
  version: '',
  os: '',
  osVersion: '',
  device: '',
  url: '',
  isMobile: false,
  isTablet: false,
  isDesktop: false,
  isBot: false
}
