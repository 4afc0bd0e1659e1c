/** The links of a page of Markdown, as far as they lead to files of this repository, and the headings that they can lead to. */
import { dirname, join } from 'node:path';

/** Where the sources are published. */
export const HOME = 'https://github.com/nestjs-holdfast/nestjs-holdfast';
/** What a link to a file begins with that is not in the package. */
export const REPOSITORY = `${HOME}/blob/main/`;

export interface PageLink {
  readonly link: string;
  /** The path of the file from the root of the repository, or its URL below {@link REPOSITORY}. */
  readonly file: string;
  readonly heading: string | undefined;
}

export function linksOf(page: string, text: string): PageLink[] {
  const links = [...prose(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!);
  return links
    .filter((link) => !/^[a-z]+:/.test(link) || link.startsWith(REPOSITORY))
    .map((link) => {
      const [path = '', heading] = link.split('#');
      if (path === '') return { link, file: page, heading };
      return { link, file: path.startsWith(REPOSITORY) ? path : join(dirname(page), path), heading };
    });
}

/** The anchors of a page's headings, as GitHub and the registry make them. */
export function anchorsOf(text: string): string[] {
  const headings = [...prose(text).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'));
  const anchors = headings.map((heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-'));
  return anchors.map((anchor, at) => {
    const before = anchors.slice(0, at).filter((other) => other === anchor).length;
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
}

/** The text without its blocks of code. */
export function prose(text: string): string {
  return text.replace(/^```[^]*?^```/gm, '');
}
