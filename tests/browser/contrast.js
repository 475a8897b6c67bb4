// Every run of text under `root` that is too pale on what lies behind it (WCAG 1.4.3: 4.5 to 1).
(root) => {
  const rgba = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], back) => [r, g, b].map((c, i) => c * a + back[i] * (1 - a));
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    return over(rgba(getComputedStyle(element).backgroundColor), behind(element.parentElement));
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pale = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || !element.checkVisibility()) continue;
    const back = behind(element);
    const [dark, light] = [luminance(back), luminance(over(rgba(getComputedStyle(element).color), back))].sort((x, y) => x - y);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5) pale.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return pale;
}
